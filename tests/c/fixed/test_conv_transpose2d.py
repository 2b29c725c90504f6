"""Transposed convolution: output phases, and its kernels against plain loops."""

from __future__ import annotations

from pathlib import Path

from nnkit.c.fixed.conv_transpose2d import output_phases
from nnkit.program import Window
from tests.c.fixed.kernel_check import check_ops, needs_gcc
from tests.c.fixed.programs import S16, U16
from tests.c.fixed.random_ops import SIGNED, TYPES, Random


def test_every_tap_of_a_transposed_convolution_belongs_to_one_phase() -> None:
    window = Window(4, 3, 2, 3, 1, 2, 1, 0)
    seen = []
    for phase in output_phases(window):
        for tap_y in phase.taps_y:
            for tap_x in phase.taps_x:
                seen.append((tap_y.index, tap_x.index))
                # o = i * stride - pad + k * dilation, at the phase's first output row (o = phase)
                assert tap_y.delta * 2 - 1 + tap_y.index == phase.y
                assert tap_x.delta * 3 + tap_x.index * 2 == phase.x
    assert sorted(seen) == [(ky, kx) for ky in range(4) for kx in range(3)]


@needs_gcc
def test_all_types(tmp_path: Path) -> None:
    r = Random(10)
    for x in TYPES:
        for _ in range(3):
            r.transposed(x, r.pick(*TYPES))
    for y in SIGNED:
        r.transposed(S16, y, leaky=True)
    for x in (S16, U16):
        r.transposed(x, S16, accumulator="int64")
    check_ops(r, tmp_path)
