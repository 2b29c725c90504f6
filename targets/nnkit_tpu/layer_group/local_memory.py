"""A chip's local memory as one byte array, with a shadow that tells for every byte who wrote it.

The layout is written down here a second time, from its description alone and not with the planner's formulas: what
the planner gets wrong must not be wrong here in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit_tpu.layer_group.chips import Chip

NOBODY = 0
POISON_BYTE = 0xA5


class LocalMemory:
    """lanes x lane_bytes bytes. `owner` holds, byte by byte, the number of the value that was written last."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self.bytes = np.full((chip.lanes, chip.lane_bytes), POISON_BYTE, np.uint8)
        self.owner = np.full((chip.lanes, chip.lane_bytes), NOBODY, np.int32)

    def extent(self, shape: tuple[int, ...], dtype_bytes: int, eu_aligned: bool) -> int:
        """Bytes per lane from a value's address to its end."""
        images, channels, height, width = shape
        rows = images * ((channels + self.chip.lanes - 1) // self.chip.lanes)
        return rows * self._stride(height * width * dtype_bytes, eu_aligned)

    def write(self, address: int, values: NDArray[Any], eu_aligned: bool, owner: int) -> None:
        """Store [n, c, h, w] values at `address` of every lane they lie in. Raises IndexError beyond a lane."""
        for lanes, span, image, channels in self._places(address, values.shape, values.itemsize, eu_aligned):
            block = np.ascontiguousarray(values[image, channels]).reshape(len(range(*lanes.indices(10**9))), -1)
            self.bytes[lanes, span] = block.view(np.uint8)
            self.owner[lanes, span] = owner

    def read(
        self, address: int, shape: tuple[int, int, int, int], dtype: np.dtype[Any], eu_aligned: bool, owner: int
    ) -> tuple[NDArray[Any], int]:
        """The [n, c, h, w] values at `address`, and how many of their bytes `owner` did not write last."""
        values = np.empty(shape, dtype)
        foreign = 0
        for lanes, span, image, channels in self._places(address, shape, dtype.itemsize, eu_aligned):
            block = np.ascontiguousarray(self.bytes[lanes, span])
            values[image, channels] = block.view(dtype).reshape(-1, shape[2], shape[3])
            foreign += int(np.count_nonzero(self.owner[lanes, span] != owner))
        return values, foreign

    def poison(self, address: int, size_bytes: int) -> None:
        """Make `size_bytes` of every lane unusable: someone is writing there."""
        self._check(address, size_bytes)
        self.bytes[:, address : address + size_bytes] = POISON_BYTE
        self.owner[:, address : address + size_bytes] = NOBODY

    def _stride(self, channel_bytes: int, eu_aligned: bool) -> int:
        unit = self.chip.eu_bytes if eu_aligned else 1
        return (channel_bytes + unit - 1) // unit * unit

    def _check(self, address: int, size_bytes: int) -> None:
        if address < 0 or address + size_bytes > self.chip.lane_bytes:
            raise IndexError(f"[{address}, {address + size_bytes}) is outside a lane of {self.chip.lane_bytes} bytes")

    def _places(
        self, address: int, shape: tuple[int, ...], dtype_bytes: int, eu_aligned: bool
    ) -> Iterator[tuple[slice, slice, int, slice]]:
        """(lanes, bytes of the lane, image, channels) of the runs of channels that lie side by side in the lanes."""
        images, channels, height, width = shape
        self._check(address, self.extent(shape, dtype_bytes, eu_aligned))
        size = height * width * dtype_bytes
        at = address
        for image in range(images):
            for first in range(0, channels, self.chip.lanes):
                count = min(self.chip.lanes, channels - first)
                yield slice(0, count), slice(at, at + size), image, slice(first, first + count)
                at += self._stride(size, eu_aligned)
