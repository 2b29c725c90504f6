"""The padding of convolutions and pools in numbers, where ONNX lets a model leave it to `auto_pad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Pads: TypeAlias = tuple[int, int, int, int]
"""Top, left, bottom, right."""


def explicit_pads(
    auto_pad: str,
    pads: Sequence[int],
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    input_hw: Sequence[int],
    output_hw: Sequence[int],
) -> Pads:
    """What a Conv, MaxPool or AveragePool pads; everything else as (height, width).

    pads: the node's, which hold unless `auto_pad` says otherwise. VALID: none. SAME_UPPER and SAME_LOWER: as much as
    the output needs beyond the input; where that is odd, one more at the end, or at the beginning.
    """
    if auto_pad == "VALID":
        return 0, 0, 0, 0
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        top, left, bottom, right = pads
        return top, left, bottom, right
    begins, ends = [], []
    for size, out, k, s, d in zip(input_hw, output_hw, kernel, strides, dilations, strict=True):
        total = max(0, (out - 1) * s + (k - 1) * d + 1 - size)
        begins.append(total // 2 if auto_pad == "SAME_UPPER" else total - total // 2)
        ends.append(total - begins[-1])
    return begins[0], begins[1], ends[0], ends[1]
