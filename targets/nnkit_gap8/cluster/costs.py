"""What things cost on GAP8's cluster, in its cycles: the constants of the tiler's model.

Measured on a simulated cluster of the chip's family (eight RI5CY cores, 64 KiB of L1 in 16 banks): fork and join 70,
DMA between L2 and L1 40 + bytes / 7.9, an L3 read 85 + 1.0 a byte, an L2 access 15. The inner loop of a packed
convolution has 24 instructions for 4 channels by 4 pixels by one group of lanes; eight cores that read the same
weights lose about 5 % to each other in L1's banks.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from nnkit.c.fixed.conv2d_packed import BLOCK_PIXELS, PackedLayout
from nnkit.c.fixed.conv_transpose2d_packed import TransposedLayout
from nnkit.c.fixed.weight_blocks import LANES
from nnkit.memory.plan import MemoryPlan

PoolCost: TypeAlias = Literal["pairs", "max", "average"]
"""Maxima of pairs of columns (3x3 with stride 2), other maxima, averages."""

FORK_CYCLES = 300  # fork and join, and the kernel's entry
TILE_CYCLES = 1500  # what the first core does between two tiles
LAYER_CYCLES = 4500  # a layer's constants, read from L2, and code that runs for the first time

DMA_BYTES = 7.9  # a cycle

GROUP_CYCLES = 25.0  # 4 channels by 4 pixels by a group of lanes
ROW_CYCLES = 8.0  # of an inner loop: its set-up and the step to the next kernel row
_BLOCK_CYCLES = 99.0  # 16 starts, 16 outputs, the block's parameters
_PHASE_CYCLES = 150.0  # of a transposed convolution's block: a call, its parameters
_SUMS_CYCLES = 100.0  # 16 sums, kept from slice to slice
_PIXELS_CYCLES = 250.0  # addresses of four pixels, in code that a core's first cache does not hold beside the loop


def ceil_div(count: int, size: int) -> int:
    """How many pieces of `size` hold `count`."""
    return -(-count // size)


def dma_cycles(size_bytes: int) -> float:
    """One transfer between L2 and L1."""
    return 40 + size_bytes / DMA_BYTES


def l3_cycles(size_bytes: int) -> float:
    """One read from L3 to L2."""
    return 85 + 1.0 * size_bytes


def slowest_part(pixels: int, channels: int, cores: int) -> tuple[float, int]:
    """Groups of four pixels, and blocks of four channels by four pixels, of the part with most work."""
    blocks = ceil_div(channels, LANES)
    units = ceil_div(ceil_div(pixels, BLOCK_PIXELS) * blocks, cores)
    return units // blocks if units % blocks == 0 else units // blocks + 1.5, units  # first and last may be begun


def fetch_cycles(plan: MemoryPlan) -> dict[int, float]:
    """By step the reads of weights from L3 that begin in it."""
    cycles = dict[int, float]()
    for chunk in plan.chunks:
        cycles[chunk.fetch_step] = cycles.get(chunk.fetch_step, 0.0) + l3_cycles(chunk.size_bytes)
    return cycles


def _block_cycles(layout: PackedLayout) -> float:
    return layout.groups * GROUP_CYCLES + layout.rows * ROW_CYCLES + _BLOCK_CYCLES


def packed_cycles(layout: PackedLayout, pixels: int, channels: int, cores: int) -> float:
    """The slowest part's work on a tile of so many pixels and output channels: parts divide blocks of both."""
    fours, units = slowest_part(pixels, channels, cores)
    return fours * _PIXELS_CYCLES + units * _block_cycles(layout)


def least_packed_cycles(layout: PackedLayout, pixels: int, channels: int, cores: int) -> float:
    """All of it in even parts."""
    blocks = ceil_div(channels, LANES)
    return pixels / BLOCK_PIXELS * (_PIXELS_CYCLES + blocks * _block_cycles(layout)) / cores


def sliced_cycles(layout: PackedLayout, pixels: int, channels: int, cores: int) -> float:
    """As `packed_cycles`, of one slice of the input's channels, whose sums are kept. layout: of the slice."""
    fours, units = slowest_part(pixels, channels, cores)
    return fours * _PIXELS_CYCLES + units * (_block_cycles(layout) + _SUMS_CYCLES)


def least_slice_cycles(layout: PackedLayout, pixels: int, channels: int, cores: int) -> float:
    """What a slice more adds at least to `least_packed_cycles`: all but the products."""
    blocks = ceil_div(channels, LANES)
    each = layout.rows * ROW_CYCLES + _BLOCK_CYCLES + _SUMS_CYCLES
    return pixels / BLOCK_PIXELS * (_PIXELS_CYCLES + blocks * each) / cores


def _phase_cycles(layout: TransposedLayout) -> float:
    """Blocks of 4 channels by 4 pixels of each phase."""
    return sum(
        layout.phase_groups(phase) * GROUP_CYCLES + len(phase.taps_y) * ROW_CYCLES + _BLOCK_CYCLES + _PHASE_CYCLES
        for phase in layout.phases
    )


def transposed_cycles(layout: TransposedLayout, rows: int, channels: int, cores: int) -> float:
    """The slowest part's work on so many rows of each phase: parts divide fours of pixels, phases and blocks."""
    phases, blocks = len(layout.phases), ceil_div(channels, LANES)
    units = ceil_div(rows * ceil_div(layout.columns, BLOCK_PIXELS) * phases * blocks, cores)
    return ceil_div(units, blocks) * _PIXELS_CYCLES + units * _phase_cycles(layout) / phases


def least_transposed_cycles(layout: TransposedLayout, channels: int, cores: int) -> float:
    """All of it in even parts."""
    blocks = ceil_div(channels, LANES)
    each = len(layout.phases) * _PIXELS_CYCLES + blocks * _phase_cycles(layout)
    return layout.rows * ceil_div(layout.columns, BLOCK_PIXELS) * each / cores


def image_cycles(layout: PackedLayout, rows: int, columns: int, cores: int, same_type: bool) -> float:
    """The slowest part's work on the image of a tile: units are the lanes of one row, of `columns` a row."""
    unit, each = 70.0, 4.0 + 2.0 * layout.lanes
    if layout.folded:
        unit, each = 120.0, 14.0
    elif same_type:  # as many pixels as lanes at once, the rest one by one
        unit, each = 165.0 + 10.0 * (layout.image_w % layout.lanes), 2.5 + 0.5 * layout.lanes
    return ceil_div(rows * columns, cores) * (unit + layout.image_w * each)


def pool_cycles(channels: int, rows: int, width: int, taps: int, kind: PoolCost, cores: int) -> float:
    """The slowest part's work where parts divide channels."""
    each = {"pairs": 12.0, "max": 4.0 + 3.0 * taps, "average": 10.0 + 11.5 * taps}[kind]
    return ceil_div(channels, cores) * (40.0 + rows * (210.0 + width * each))


def kept_cycles(channels: int, elements: int, cores: int) -> float:
    """The slowest part's work on the rows that a tile leaves to the next."""
    return ceil_div(channels, cores) * (10.0 + elements * 5.0)


def depthwise_cycles(channels: int, rows: int, width: int, taps: int, stride: int, cores: int) -> float:
    """The slowest part's work: parts divide blocks of channels, a row's pixels are computed four at a time.

    stride: down times across. The more of it, the more of a channel's band is copied for an output.
    """
    each = (12.0 + 4.5 * taps if taps > 1 else 31.0) + 8.5 * (stride - 1)
    pixels = ceil_div(width, BLOCK_PIXELS) * BLOCK_PIXELS
    return ceil_div(ceil_div(channels, LANES), cores) * LANES * (495.0 + rows * (87.0 + pixels * each))


def elementwise_cycles(channels: int, elements: int, cores: int, each: float) -> float:
    """The slowest part's work where parts divide channels of so many elements."""
    return ceil_div(channels, cores) * (60.0 + elements * each)
