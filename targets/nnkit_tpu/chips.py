"""The chips: lanes, local memory, transfers and throughput, and how a tensor lies in local memory.

A chip's local memory is divided among its lanes. Channel c of a tensor lies in lane c mod lanes; a lane holds,
image by image, its channels one after another, each as h * w values. `eu_aligned` channels start at multiples of
the execution unit's width, so that the arithmetic units read whole vectors; weights are mostly packed instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nnkit.errors import UsageError
from nnkit.memory.packing import align_up


@dataclass(frozen=True)
class Chip:
    """One processor.

    eu_bytes: bytes a lane works on at once. lane_bytes: local memory of one lane. dma_bytes_per_cycle and
    dma_start_cycles: a transfer of b bytes takes start + b / rate cycles, and `dma_floor_cycles` at least.
    conv_pixels_per_cycle: output pixels of INT8 convolution per cycle, of one tap, one output channel a lane and
    `lanes` input channels. cores: processors that share one global memory. clock_hz: of the arithmetic units, as the
    vendor's profiler reckons; None for the cv18xx. operations_per_second: what the maker states for INT8, a
    multiplication and an addition each; None where it is not needed or not known to us.
    Source of the sizes: the vendor's public chip table; of the rates: its simulator's profiles.
    """

    name: str
    lanes: int
    eu_bytes: int
    lane_bytes: int
    banks: int
    dma_bytes_per_cycle: float
    dma_start_cycles: int
    dma_floor_cycles: int
    conv_pixels_per_cycle: int
    cores: int = 1
    clock_hz: int | None = None
    operations_per_second: float | None = None

    @property
    def is_cv(self) -> bool:
        """Whether it is one of the cv18xx: another arithmetic, other compiler passes and less memory than the BM."""
        return self.name in CV_CHIPS

    @property
    def bank_bytes(self) -> int:
        """Bytes of one bank of a lane."""
        return self.lane_bytes // self.banks


# Rates: bm1684x reads 54 bytes a cycle and is never done before 303; bm1688 16.7 after 289. The cv18xx have no
# simulator that tells cycles: their rates are those of a 64-bit memory at the processor's clock.
_TABLE = (
    Chip("bm1684x", 64, 64, 256 << 10, 16, 54.0, 0, 303, 4, 1, clock_hz=1_000_000_000),
    Chip("bm1688", 32, 16, 128 << 10, 16, 16.7, 289, 392, 4, 2, clock_hz=900_000_000),
    Chip("cv183x", 32, 16, 32 << 10, 8, 8.0, 100, 100, 1, 1),
    Chip("cv182x", 8, 16, 32 << 10, 8, 8.0, 100, 100, 1, 1),
    Chip("cv181x", 8, 16, 32 << 10, 8, 8.0, 100, 100, 1, 1, operations_per_second=0.5e12),
    Chip("cv180x", 2, 16, 32 << 10, 8, 8.0, 100, 100, 1, 1),
)
CHIPS: Mapping[str, Chip] = MappingProxyType({chip.name: chip for chip in _TABLE})
CV_CHIPS = ("cv183x", "cv182x", "cv181x", "cv180x")


def chip_named(name: str) -> Chip:
    """The chip of that name. Raises UsageError with the known names."""
    if name not in CHIPS:
        raise UsageError(f"there is no chip {name!r}", remedy=f"known chips: {', '.join(CHIPS)}")
    return CHIPS[name]


def channel_stride_bytes(chip: Chip, height: int, width: int, dtype_bytes: int, eu_aligned: bool = True) -> int:
    """Bytes from one channel of a lane to the next: h * w values, rounded up to whole vectors if `eu_aligned`."""
    pixels = height * width
    if eu_aligned:
        pixels = align_up(pixels, max(chip.eu_bytes // dtype_bytes, 1))
    return pixels * dtype_bytes


def lane_bytes(chip: Chip, shape: tuple[int, int, int, int], dtype_bytes: int, eu_aligned: bool = True) -> int:
    """Bytes that a tensor [n, c, h, w] takes in each lane: n * ceil(c / lanes) channels."""
    images, channels, height, width = shape
    rows = images * -(-channels // chip.lanes)
    return rows * channel_stride_bytes(chip, height, width, dtype_bytes, eu_aligned)
