"""How far a result may be written over the input that a kernel still reads, from the order of the kernels' loops.

The orders are those of `nnkit_pool.c` and `nnkit_conv*.c`; a kernel that changes its loops changes its trace here.
"""

from __future__ import annotations

import numpy as np

from nnkit.graph.read.window import SlidingWindow
from nnkit.memory.diagonal import Trace, Window, channels_first_per_channel, safe_distance_bytes

VALUE_BYTES = 4


def pool_distance_bytes(window: SlidingWindow, channels: int) -> int:
    """Pools and depthwise convolutions: channel by channel and pixel after pixel.

    A pixel's window is read before the pixel is written, or, where some are read together, before the first of them.
    """
    height, width = window.input_hw
    shape = Window(height, width, *window.output_hw, window.kernel, window.strides, window.pads[:2], window.dilations)
    return safe_distance_bytes(channels_first_per_channel(shape, channels, VALUE_BYTES, VALUE_BYTES))


def conv_distance_bytes(window: SlidingWindow, channels: int, out_channels: int, groups: int) -> int:
    """Output map after output map: each is written as a whole before the input maps of its group are read for it.

    0 where all input maps are read until the end, so that nothing would be saved.
    """
    if groups == 1:
        return 0
    plane, out_plane = (height * width * VALUE_BYTES for height, width in (window.input_hw, window.output_hw))
    maps = np.arange(out_channels, dtype=np.int64)
    size = channels * plane
    first = maps // (out_channels // groups) * (channels // groups) * plane
    reads = np.stack([np.full_like(first, size), first], axis=1)
    writes = np.stack([(maps + 1) * out_plane, np.zeros_like(maps)], axis=1)
    return safe_distance_bytes(Trace(reads.ravel(), writes.ravel(), size))


def packed_distance_bytes(window: SlidingWindow, channels: int, out_channels: int, groups: int) -> int:
    """Group after group: all input maps of a group are read until its last output pixel is written.

    0 where there is one group, so that nothing would be saved.
    """
    if groups == 1:
        return 0
    plane, out_plane = (height * width * VALUE_BYTES for height, width in (window.input_hw, window.output_hw))
    steps = np.repeat(np.arange(groups, dtype=np.int64), 2)
    first = steps * (channels // groups) * plane
    return safe_distance_bytes(Trace(first, (steps + 1) * (out_channels // groups) * out_plane, channels * plane))
