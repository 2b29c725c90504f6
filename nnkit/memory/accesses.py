"""In which order a kernel with a window reads its input and writes its output, as numbers that a plan can keep.

From them follows how far the output may be written below the input that is still read (`nnkit.memory.diagonal`); and
who gets the plan can work that out again (`nnkit.package.overlaps`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from nnkit.memory.diagonal import Trace, Window, channels_first_per_channel, channels_last, safe_distance_bytes

Order: TypeAlias = Literal["pixels", "planes", "groups"]


@dataclass(frozen=True)
class Accesses:
    """A kernel's loops, from the first to the last byte.

    order: `pixels`: [H, W, C], `together` pixels of the output after each other, with all their channels. `planes`:
        [C, H, W], channel after channel, and in each pixel after pixel. `groups`: [C, H, W], group after group; all
        input channels of a group are read until the last byte of its output is written.
    input_bytes, output_bytes: of an element.
    rereads: what a step reads is still read after a part of what it writes is written.
    """

    order: Order
    window: Window
    channels: int
    out_channels: int
    input_bytes: int
    output_bytes: int
    groups: int = 1
    together: int = 1
    rereads: bool = False

    @property
    def distance_bytes(self) -> int:
        """The least distance (input start minus output start) at which the kernel is safe; at least 1."""
        trace = self._trace()
        starts = np.arange(0, len(trace.first_read), self.together)
        if not len(starts):
            return 1
        reads = np.minimum.reduceat(trace.first_read, starts)
        writes = np.maximum.reduceat(trace.write_end, starts)
        times = 2 if self.rereads else 1
        return safe_distance_bytes(Trace(np.repeat(reads, times), np.repeat(writes, times), trace.no_read))

    def _trace(self) -> Trace:
        window = self.window
        if self.order == "pixels":
            return channels_last(window, self.channels, self.out_channels, self.input_bytes, self.output_bytes)
        if self.order == "planes":
            return channels_first_per_channel(window, self.channels, self.input_bytes, self.output_bytes)
        plane = window.height * window.width * self.input_bytes
        out_plane = window.out_height * window.out_width * self.output_bytes
        groups = np.arange(self.groups, dtype=np.int64)
        first = groups * (self.channels // self.groups) * plane
        return Trace(first, (groups + 1) * (self.out_channels // self.groups) * out_plane, self.channels * plane)
