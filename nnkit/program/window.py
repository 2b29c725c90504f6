"""Sliding windows over the last two axes, and what convolutions and pools of integers gather with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

_ABSENT = -(1 << 62)  # below every stored integer, so that padding never wins a maximum


@dataclass(frozen=True)
class Window:
    """A sliding window over H and W: kernel, stride, dilation and the padding that is really read.

    `pad_*` are effective: where ceil_mode or a stride leaves rows or columns unread they do not count.
    """

    kernel_h: int
    kernel_w: int
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    pad_bottom: int = 0
    pad_right: int = 0

    def output_hw(self, height: int, width: int) -> tuple[int, int]:
        """(H, W) of the output for an input of (height, width)."""
        out_h = (height + self.pad_top + self.pad_bottom - self.span_h) // self.stride_h + 1
        out_w = (width + self.pad_left + self.pad_right - self.span_w) // self.stride_w + 1
        return out_h, out_w

    @property
    def span_h(self) -> int:
        """Input rows from the first to the last tap."""
        return (self.kernel_h - 1) * self.dilation_h + 1

    @property
    def span_w(self) -> int:
        """Input columns from the first to the last tap."""
        return (self.kernel_w - 1) * self.dilation_w + 1

    def rows_behind(self, first: int, last: int) -> tuple[int, int]:
        """Input rows that rows first .. last - 1 of the output read; those outside the input are padding."""
        return first * self.stride_h - self.pad_top, (last - 1) * self.stride_h - self.pad_top + self.span_h

    @property
    def has_padding(self) -> bool:
        """Whether any padded element is read."""
        return any((self.pad_top, self.pad_left, self.pad_bottom, self.pad_right))


def padded(x: NDArray[Any], window: Window, value: float) -> NDArray[Any]:
    """[..., H, W] with the window's padding filled with `value`."""
    if not window.has_padding:
        return x
    pads = (*((0, 0),) * (x.ndim - 2), (window.pad_top, window.pad_bottom), (window.pad_left, window.pad_right))
    return np.pad(x, pads, constant_values=value)


def taps(x: NDArray[Any], window: Window) -> NDArray[Any]:
    """Views of every window: padded [..., H, W] -> [..., OH, OW, kh, kw] (no copy)."""
    views = sliding_window_view(x, (window.span_h, window.span_w), axis=(-2, -1))
    result: NDArray[Any] = views[
        ..., :: window.stride_h, :: window.stride_w, :: window.dilation_h, :: window.dilation_w
    ]
    return result


def window_maxima(x: NDArray[np.int64], window: Window) -> NDArray[np.int64]:
    """The largest present value of every window: [..., H, W] -> [..., OH, OW]."""
    return np.asarray(taps(padded(x, window, _ABSENT), window).max(axis=(-2, -1)))


def window_sums(x: NDArray[np.int64], window: Window) -> NDArray[np.int64]:
    """The sum of every window, in which padding is 0: [..., H, W] -> [..., OH, OW]."""
    return np.asarray(taps(padded(x, window, 0), window).sum(axis=(-2, -1)))


def present_taps(height: int, width: int, window: Window) -> NDArray[np.int64]:
    """How many taps of each window lie inside an input of this size: [OH, OW]."""
    return window_sums(np.ones((height, width), np.int64), window)
