"""In which order kernels read their input and write their result, which may then be written over it.

The orders are those of `nnkit_pool.c` and `nnkit_conv*.c`; a kernel that changes its loops changes its order here.
"""

from __future__ import annotations

from nnkit.graph.read.window import SlidingWindow
from nnkit.memory.accesses import Accesses, Order
from nnkit.memory.diagonal import Window

VALUE_BYTES = 4


def pool_accesses(window: SlidingWindow, channels: int) -> Accesses:
    """Pools and depthwise convolutions: channel by channel and pixel after pixel.

    A pixel's window is read before the pixel is written, or, where some are read together, before the first of them.
    """
    return _accesses("planes", window, channels, channels, 1)


def conv_accesses(window: SlidingWindow, channels: int, out_channels: int, groups: int) -> Accesses | None:
    """Convolutions by group: all input maps of a group are read until the end of its last output map.

    None where all input maps are read until the end, so that nothing would be saved.
    """
    return _accesses("groups", window, channels, out_channels, groups) if groups > 1 else None


def _accesses(order: Order, window: SlidingWindow, channels: int, out_channels: int, groups: int) -> Accesses:
    height, width = window.input_hw
    shape = Window(height, width, *window.output_hw, window.kernel, window.strides, window.pads[:2], window.dilations)
    rereads = order == "groups"
    return Accesses(order, shape, channels, out_channels, VALUE_BYTES, VALUE_BYTES, groups, rereads=rereads)
