"""Convolution: its path, how many cores have scratch, and its kernels against plain loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnkit.c.fixed.conv2d import Conv2dC, conv2d_kernel
from nnkit.c.fixed.machine import CoreMachine
from nnkit.program import Window
from tests.c.fixed.kernel_check import check_ops, needs_gcc
from tests.c.fixed.one_conv import conv_op, program_of
from tests.c.fixed.programs import S8, S16, U8, U16
from tests.c.fixed.random_ops import SIGNED, TYPES, Random


@pytest.mark.parametrize(
    ("window", "in_shape", "path"),
    [
        (Window(1, 1), (8, 6, 6), "direct"),
        (Window(6, 6), (8, 6, 6), "direct"),
        (Window(1, 1, 2, 2), (8, 6, 6), "rows"),
        (Window(1, 1, 1, 1, 1, 1, 1, 1, 1, 1), (8, 6, 6), "rows"),
        (Window(3, 3), (8, 6, 6), "rows"),
    ],
)
def test_paths(window: Window, in_shape: tuple[int, int, int], path: str) -> None:
    out_hw = window.output_hw(*in_shape[1:])
    op = conv_op(np.zeros((4, in_shape[0], window.kernel_h, window.kernel_w), np.int64), window)
    kernel = conv2d_kernel(op, program_of(op, in_shape, (4, *out_hw)), CoreMachine(8, 64 << 10))
    assert kernel.path == path
    assert (kernel.scratch_bytes == 0) == (path == "direct")


def test_gathering_needs_four_pixels_for_each_core() -> None:
    op = conv_op(np.zeros((256, 64, 3, 3), np.int64), Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1))
    program = program_of(op, (64, 7, 7), (256, 7, 7))
    needs = Conv2dC().needs(op, program, CoreMachine(8, 64 << 10))
    assert needs.scratch_bytes == (("l1", 8 * 576 * 4 * 2),)  # cores, taps, pixels, bytes
    assert needs.weight_block_bytes == (16 + 576 * 4 * 2,) * 64
    assert needs.repacks_input
    # Half the L1: only 7 cores' pixels fit.
    assert conv2d_kernel(op, program, CoreMachine(8, 32 << 10)).max_parts == 7


@needs_gcc
def test_all_types_and_paths(tmp_path: Path) -> None:
    r = Random(5)
    for x in TYPES:
        for bits in (8, 16):
            y = r.pick(*TYPES)
            r.conv(x, y, weight_bits=bits, padded_value=True)
            r.pointwise(x, y, weight_bits=bits, clip=True)
    r.full_window(S16, S16)
    r.full_window(U8, S8, weight_bits=8)
    check_ops(r, tmp_path)


@needs_gcc
def test_one_pixel_and_small_images(tmp_path: Path) -> None:
    r = Random(19)
    for shape in ((1, 1, 1), (5, 1, 1), (3, 1, 7), (4, 5, 1), (2, 3, 3), (7, 2, 2)):
        x = r.fresh(shape, S16)
        r._conv(x, S16, Window(1, 1), r.size(1, 9))
        x = r.fresh(shape, S16)
        r._conv(x, S16, Window(3, 3, 1, 1, 1, 1, 1, 1, 1, 1), r.size(1, 9))
        x = r.fresh(shape, U8)
        r._conv(x, U8, Window(3, 2, 2, 3, 1, 1, 2, 0, 0, 1), r.size(1, 9), weight_bits=8)
    check_ops(r, tmp_path)


@needs_gcc
def test_running_sums(tmp_path: Path) -> None:
    r = Random(7)
    for x in TYPES:
        y = r.pick(*SIGNED)
        r.conv(x, y, accumulate="running", padded_value=True)
        r.pointwise(x, y, accumulate="running", clip=True)
    r.full_window(S16, S16, accumulate="running")
    r.grouped(S16, S16, accumulate="running")
    r.conv(S16, S16, accumulate="running", leaky=True)
    r.fused(S16, S16, "max", accumulate="running")
    check_ops(r, tmp_path)


@needs_gcc
def test_slopes(tmp_path: Path) -> None:
    r = Random(6)
    for y in SIGNED:
        r.conv(S16, y, leaky=True)
        r.pointwise(U8, y, leaky=True, weight_bits=8)
        r.pointwise(S8, y, leaky=True, clip=True)
        r.grouped(S16, y, leaky=True)
    r.fused(S16, S16, "max", leaky=True)
    check_ops(r, tmp_path)


@needs_gcc
def test_64_bit_accumulators(tmp_path: Path) -> None:
    r = Random(17)
    for x in (S16, U16):
        r.conv(x, S16, accumulator="int64", padded_value=True)
        r.pointwise(x, U16, accumulator="int64")
        r.pointwise(x, S8, accumulator="int64", leaky=True)
    r.fused(S16, S16, "max", accumulator="int64")
    check_ops(r, tmp_path)


@needs_gcc
def test_groups(tmp_path: Path) -> None:
    r = Random(21)
    for x in TYPES:
        r.grouped(x, r.pick(*TYPES), weight_bits=r.pick(8, 16))
    check_ops(r, tmp_path)


@needs_gcc
def test_pools_behind(tmp_path: Path) -> None:
    r = Random(12)
    for kind in ("max", "average"):
        for x, y in ((S16, S16), (U8, S8), (S16, U16)):
            r.fused(x, y, kind)
            r.fused(x, y, kind, shape="pointwise")
    check_ops(r, tmp_path)


@needs_gcc
def test_dilations_wider_than_the_image(tmp_path: Path) -> None:
    """Atrous pyramids reach far beyond small maps: most taps read padding."""
    r = Random(23)
    for rate, bits in ((36, 8), (64, 16)):
        x = r.fresh((3, 9, 11), S16)
        r._conv(x, S16, Window(3, 3, 1, 1, rate, rate, rate, rate, rate, rate), 5, weight_bits=bits)
        r._conv(x, U8, Window(3, 3, 2, 1, rate, 3, rate, 3, rate, 3), 5, weight_bits=bits)
    check_ops(r, tmp_path)
