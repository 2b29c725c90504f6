"""What things cost on GAP8's cluster, in its cycles: the constants of the tiler's model.

Measured on a simulated cluster of the chip's family (eight RI5CY cores, 64 KiB of L1 in 16 banks): fork and join 70,
DMA between L2 and L1 40 + bytes / 7.9, an L3 read 85 + 1.0 a byte, an L2 access 15. The inner loop of a packed
convolution has 24 instructions for 4 channels by 4 pixels by one group of lanes; eight cores that read the same
weights lose about 5 % to each other in L1's banks.
"""

from __future__ import annotations

from nnkit.c.fixed.conv2d_packed import BLOCK_PIXELS, PackedLayout
from nnkit.c.fixed.weight_blocks import LANES

FORK_CYCLES = 300  # fork and join, and the kernel's entry
TILE_CYCLES = 1500  # what the first core does between two tiles
LAYER_CYCLES = 2500  # a layer's constants, read from L2, and code that runs for the first time

_GROUP_CYCLES = 25.0
_ROW_CYCLES = 8.0  # of an inner loop: its set-up and the step to the next kernel row
_BLOCK_CYCLES = 115.0  # 16 starts, 16 outputs, the block's parameters
_PIXELS_CYCLES = 110.0  # addresses of four pixels


def ceil_div(count: int, size: int) -> int:
    """How many pieces of `size` hold `count`."""
    return -(-count // size)


def dma_cycles(size_bytes: int) -> float:
    """One transfer between L2 and L1."""
    return 40 + size_bytes / 7.9


def l3_cycles(size_bytes: int) -> float:
    """One read from L3 to L2."""
    return 85 + 1.0 * size_bytes


def packed_cycles(layout: PackedLayout, pixels: int, channels: int, pixel_parts: int, block_parts: int) -> float:
    """The slowest part's work on a tile of so many pixels and output channels."""
    fours = ceil_div(ceil_div(pixels, BLOCK_PIXELS), pixel_parts)
    blocks = ceil_div(ceil_div(channels, LANES), block_parts)
    block = layout.groups * _GROUP_CYCLES + layout.rows * _ROW_CYCLES + _BLOCK_CYCLES
    return fours * (_PIXELS_CYCLES + blocks * block)


def image_cycles(layout: PackedLayout, rows: int, columns: int, cores: int) -> float:
    """The slowest part's work on the image of a tile: units are the lanes of one row, of `columns` a row."""
    units = ceil_div(rows * columns, cores)
    each = 11.0 if layout.folded else 4.0 + 2.0 * layout.lanes
    return units * (45.0 + layout.image_w * each)


def elementwise_cycles(channels: int, elements: int, cores: int, each: float) -> float:
    """The slowest part's work where parts divide channels of so many elements."""
    return ceil_div(channels, cores) * (30.0 + elements * each)
