"""What affine kernels cost on GAP8's cluster, in its cycles: beside `cluster.costs`, which has what tiles cost.

Depthwise layers (3x3, 5x5, 7x7, strides 1 and 2), pools and sums were measured by layer on the simulated cluster.
"""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.c.affine.call import Kernel
from nnkit_gap8.cluster.costs import GROUP_CYCLES, ROW_CYCLES, ceil_div, slowest_part

_BLOCK_CYCLES = 320.0  # starts, parameters, and 16 outputs with multiplier and shift
_PIXELS_CYCLES = 120.0  # addresses of four pixels
_WIDE_CYCLES = 60.0  # more for an output whose product has 64 bits
_ROW_OF_CHANNEL_CYCLES = 197.0  # of a depthwise layer: parameters, addresses
_WORD_CYCLES = 14.5  # of a depthwise output, in loops over kernel rows and words
_ROW_OF_WORDS_CYCLES = (6.0, 10.0)  # of a kernel row of one word, of two, in the loops of nnkit_affine_packed.h


def packed_cycles(numbers: Mapping[str, int], rows: int, channels: int, cores: int, *, wide: bool) -> float:
    """The slowest part's work on so many output rows and channels: parts divide blocks of both."""
    fours, units = slowest_part(rows * numbers["out_width"], channels, cores)
    block = numbers["kernel_h"] * (numbers["row_groups"] * GROUP_CYCLES + ROW_CYCLES) + _BLOCK_CYCLES
    return fours * _PIXELS_CYCLES + units * (block + (16 * _WIDE_CYCLES if wide else 0.0))


def image_cycles(numbers: Mapping[str, int], rows: int, cores: int) -> float:
    """The slowest part's work on the image of a tile."""
    each = 6.0 + numbers["entry_bytes"] * (1.0 if numbers["channels"] == numbers["entry_bytes"] else 8.0)
    return 100.0 + ceil_div(rows * numbers["image_w"], cores) * each


def depthwise_cycles(
    numbers: Mapping[str, int], tile: tuple[int, int, int], cores: int, *, wide: bool, quick: bool
) -> float:
    """The slowest part's work on a tile of channels, image rows, output rows: planes, then products.

    quick: rows are computed by the loops of `nnkit_affine_packed.h`.
    """
    channels, image_rows, rows = tile
    fours = ceil_div(numbers["width"], 4)
    image = ceil_div(image_rows * ceil_div(channels, 4), cores) * (80.0 + fours * 30.0)
    words = numbers["kernel_h"] * numbers["words"]
    each = 10.0 + words * _WORD_CYCLES
    if quick:
        each = 8.0 + numbers["kernel_h"] * _ROW_OF_WORDS_CYCLES[numbers["words"] - 1]
    if numbers["kernel_h"] == 3 and numbers["words"] == 1:  # a row by a loop of its own
        each = 24.5 if wide or numbers["stride_w"] > 2 else 20.5
    each += _WIDE_CYCLES if wide else 0.0
    return image + ceil_div(channels * rows, cores) * (_ROW_OF_CHANNEL_CYCLES + numbers["out_width"] * each)


def window_cycles(kernel: Kernel, taps: int) -> float:
    """Cycles of an output value, by a kernel that is not packed."""
    if kernel.structure == "pool":
        return 20.0 + taps * 10.0 if kernel.values["kind"] == "max" else 30.0 + taps * 19.0
    return 30.0 + taps * (12.0 if kernel.values["sum"] else 5.0)


def maximum_of_bytes_cycles(taps: int, channels: int) -> float:
    """Cycles of a pixel of a maximum pool: the first tap is copied, the others are taken four channels at once."""
    words, rest = divmod(channels, 4)
    return taps * 50.0 + channels * 12.0 + (taps - 1) * (words * 8.8 + rest * 9.0)


def element_cycles(kernel: Kernel) -> float:
    """Cycles of an element."""
    return {"copy": 2.0, "lookup": 8.0, "add": 20.0}.get(kernel.structure, 60.0)
