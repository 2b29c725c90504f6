"""Padding and window gathering, shared by convolution and pooling."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from nnkit.program import Window


def padded(x: NDArray[np.int64], window: Window, value: int) -> NDArray[np.int64]:
    """[C, H, W] with the window's padding filled with `value`."""
    if not window.has_padding:
        return x
    pads = ((0, 0), (window.pad_top, window.pad_bottom), (window.pad_left, window.pad_right))
    return np.pad(x, pads, constant_values=value)


def taps(x: NDArray[np.int64], window: Window) -> NDArray[np.int64]:
    """Views of every window: padded [C, H, W] -> [C, OH, OW, kh, kw] (no copy)."""
    span = ((window.kernel_h - 1) * window.dilation_h + 1, (window.kernel_w - 1) * window.dilation_w + 1)
    views = sliding_window_view(x, span, axis=(1, 2))
    return views[:, :: window.stride_h, :: window.stride_w, :: window.dilation_h, :: window.dilation_w]
