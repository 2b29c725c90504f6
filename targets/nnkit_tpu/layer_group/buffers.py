"""Scratch memory of the ops, by chip family, as the compiler's own programs show it.

INT8 on the BM chips: a sum keeps 32-bit values of its output; a convolution does so on bm1684x, while bm1688
requantises as it accumulates. A convolution of few input channels spreads its taps over the channels first, into a
copy of its output's pixels. The cv18xx need a copy of the output for sums only.
"""

from __future__ import annotations

from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.model import BufferRule, Kind, Shape

_NONE = BufferRule()


def buffer_rule(
    chip: Chip,
    kind: Kind,
    *,
    integer: bool,
    source: Shape,
    result: Shape,
    group: int = 1,
    taps: int = 1,
    spread: bool = False,
) -> BufferRule:
    """Scratch of an op. integer: INT8 arithmetic. spread: a convolution whose taps are merged into its channels."""
    if chip.is_cv:
        return BufferRule(per_output=1.0) if kind == "binary" and integer else _NONE
    if not integer:
        return _NONE
    if kind == "binary":
        return BufferRule(per_output=4.0)
    if kind != "conv" or chip.name != "bm1684x":
        return _NONE
    per_output, per_input, fixed = 4.0, 0.0, 0
    if group > 1:
        lanes_of_input = -(-source[1] // chip.lanes)
        per_input = -(-source[1] // group // chip.lanes) / lanes_of_input
        if group == source[1] == result[1]:
            per_output, fixed = 8.0, -(-result[1] // chip.lanes) * taps
    if spread:
        per_output, fixed = per_output + 1.0, fixed + 128 + taps
    return BufferRule(per_output, per_input, fixed)
