"""Depthwise convolution: the band of rows that scratch holds, and its kernels against plain loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnkit.c.fixed.conv2d import conv2d_kernel
from nnkit.c.fixed.machine import CoreMachine
from nnkit.program import Window
from tests.c.fixed.kernel_check import check_ops, needs_gcc
from tests.c.fixed.one_conv import conv_op, program_of
from tests.c.fixed.programs import S8, S16, U8, U16
from tests.c.fixed.random_ops import SIGNED, TYPES, Random


def test_a_depthwise_band_is_cut_where_l1_is_small() -> None:
    op = conv_op(np.zeros((8, 1, 3, 3), np.int64), Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), groups=8)
    program = program_of(op, (8, 112, 112), (8, 112, 112))
    kernel = conv2d_kernel(op, program, CoreMachine(8, 64 << 10))
    # Rows of 112 + 2 elements; 8 KiB a core hold 35 of them, so 33 output rows.
    assert (kernel.band_width, kernel.band_rows) == (114, 33)
    assert kernel.scratch_bytes <= 64 << 10
    one = conv2d_kernel(op, program, CoreMachine(1, 64 << 10))
    assert one.band_rows == 112


@needs_gcc
def test_all_types(tmp_path: Path) -> None:
    r = Random(21)
    for x in TYPES:
        r.depthwise(x, r.pick(*TYPES), weight_bits=r.pick(8, 16), padded_value=True)
        r.depthwise(x, S16, clip=True)
    check_ops(r, tmp_path)


@needs_gcc
def test_running_sums_slopes_and_64_bit_accumulators(tmp_path: Path) -> None:
    r = Random(6)
    r.depthwise(S16, S16, accumulate="running")
    for y in SIGNED:
        r.depthwise(S8, y, leaky=True)
        r.depthwise(S16, y, leaky=True, accumulate="running")
    for x in (S16, U16):
        r.depthwise(x, S16, accumulator="int64")
        r.depthwise(x, S16, accumulator="int64", leaky=True)
    check_ops(r, tmp_path)


@needs_gcc
def test_pools_behind(tmp_path: Path) -> None:
    r = Random(12)
    for kind in ("max", "average"):
        for x, y in ((S16, S16), (U8, S8), (S16, U16)):
            r.fused(x, y, kind, shape="depthwise", clip=True)
    check_ops(r, tmp_path)
