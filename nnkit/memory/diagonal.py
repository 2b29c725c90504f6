"""Diagonal overlap: how far an op's output may grow into the input that it still reads.

A kernel reads its input from the front and writes its output from the front. If the input starts `d` bytes above the
output, writing is safe as long as every byte that is still to be read lies at or above what has been written:

    d >= max over steps t of  (end of what was written up to t)  -  (first input byte that is read after t)

Within a step, reads come before the write. The least such `d` is the safe distance; the pair then takes
max(d + input, output) bytes instead of input + output. (The idea of diagonal memory optimisation, Blacker et al.,
with the offset O_s = output - d; here d is taken exactly, from the kernel's own order of reads and writes.)

A proof holds for the loop order that it was made from. A kernel that several cores share, that vectorises over more
than one step, or that fetches ahead, reads and writes in another order: describe that order as steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError


@dataclass(frozen=True, eq=False)
class Trace:
    """A kernel's accesses, step by step, in bytes from the start of input and output.

    first_read: the least input byte that a step reads; `no_read` where it reads none.
    write_end: the end of the last output byte that a step writes; 0 where it writes none.
    """

    first_read: NDArray[np.int64]
    write_end: NDArray[np.int64]
    no_read: int


def safe_distance_bytes(trace: Trace) -> int:
    """The least distance (input start minus output start) at which the kernel is safe; at least 1.

    Raises:
        InternalError: the trace's reads and writes differ in number.
    """
    if len(trace.first_read) != len(trace.write_end):
        raise InternalError("a trace's reads and writes differ in number")
    if len(trace.first_read) < 2:
        return 1
    written = np.maximum.accumulate(trace.write_end)[:-1]
    later = np.minimum.accumulate(trace.first_read[::-1])[::-1][1:]
    needed = later < trace.no_read
    if not needed.any():
        return 1
    return max(1, int((written - later)[needed].max()))


def elementwise(elements: int, input_bytes: int, output_bytes: int) -> Trace:
    """One element after the other; sizes are those of an element."""
    index = np.arange(elements, dtype=np.int64)
    return Trace(index * input_bytes, (index + 1) * output_bytes, elements * input_bytes)


@dataclass(frozen=True)
class Window:
    """A convolution or pool over rows and columns. Sizes in elements.

    padding: top, left. Windows are clipped to the input.
    """

    height: int
    width: int
    out_height: int
    out_width: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    dilation: tuple[int, int] = (1, 1)


def channels_last(window: Window, channels: int, out_channels: int, input_bytes: int, output_bytes: int) -> Trace:
    """[H, W, C]: pixel after pixel; a step reads the window's pixels and writes all output channels of one."""
    first = _first_read_pixel(window)
    pixels = window.out_height * window.out_width
    size = window.height * window.width * channels * input_bytes
    reads = np.where(first < 0, size, first * channels * input_bytes)
    return Trace(reads, (np.arange(pixels, dtype=np.int64) + 1) * out_channels * output_bytes, size)


def channels_first_per_channel(window: Window, channels: int, input_bytes: int, output_bytes: int) -> Trace:
    """[C, H, W], channel by channel and pixel after pixel: pools and depthwise convolutions."""
    first = _first_read_pixel(window)
    plane, out_plane = window.height * window.width, window.out_height * window.out_width
    size = channels * plane * input_bytes
    planes = np.arange(channels, dtype=np.int64)[:, None]
    reads = np.where(first[None, :] < 0, size, (planes * plane + first[None, :]) * input_bytes)
    writes = (planes * out_plane + np.arange(out_plane, dtype=np.int64)[None, :] + 1) * output_bytes
    return Trace(reads.ravel(), writes.ravel(), size)


def of_steps(first_read: Sequence[int | None], write_end: Sequence[int]) -> Trace:
    """A trace from any kernel's steps; None: the step reads nothing."""
    far = 1 + max((r for r in first_read if r is not None), default=0)
    reads = np.array([far if r is None else r for r in first_read], dtype=np.int64)
    return Trace(reads, np.array(write_end, dtype=np.int64), far)


def _first_read_pixel(window: Window) -> NDArray[np.int64]:
    """For each output pixel in row-major order, the first input pixel of its clipped window; -1: all padding."""
    rows = _first_inside(
        window.out_height, window.height, window.kernel[0], window.stride[0], window.padding[0], window.dilation[0]
    )
    columns = _first_inside(
        window.out_width, window.width, window.kernel[1], window.stride[1], window.padding[1], window.dilation[1]
    )
    first = rows[:, None] * window.width + columns[None, :]
    return np.where((rows[:, None] < 0) | (columns[None, :] < 0), -1, first).ravel()


def _first_inside(
    outputs: int, size: int, kernel: int, stride: int, padding: int, dilation: int
) -> NDArray[np.int64]:
    taps = np.arange(outputs)[:, None] * stride - padding + np.arange(kernel)[None, :] * dilation
    inside = (taps >= 0) & (taps < size)
    return np.where(inside.any(axis=1), np.where(inside, taps, size).min(axis=1), -1).astype(np.int64)
