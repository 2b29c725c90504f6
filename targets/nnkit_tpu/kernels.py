"""What the TPU's ops compute, in numpy on [N, C, ...] arrays: float64, and thereby exact on integers.

Sums of products of 8-bit integers stay below 2**53, so one implementation serves float ops and integer ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from nnkit.program.ops import Window
from nnkit_tpu.program import TpuInterp, TpuPad, TpuReduce, TpuSlice

Array = NDArray[np.float64]


def convolve(x: Array, weight: Array, window: Window, group: int) -> Array:
    """Convolution without bias: x [N, C, H, W], weight [O, C/group, kh, kw]."""
    views = _windows(x, window, 0.0)
    images, channels = x.shape[:2]
    height, width = views.shape[2:4]
    outputs = weight.shape[0] // group
    parts = []
    for g in range(group):
        taken = views[:, g * channels // group : (g + 1) * channels // group]
        columns = np.moveaxis(taken, 1, 3).reshape(images * height * width, -1)
        rows = weight[g * outputs : (g + 1) * outputs].reshape(outputs, -1)
        parts.append((columns @ rows.T).reshape(images, height, width, outputs))
    return np.ascontiguousarray(np.moveaxis(np.concatenate(parts, axis=3), 3, 1))


def deconvolve(x: Array, weight: Array, window: Window, output_padding: tuple[int, int], group: int) -> Array:
    """Transposed convolution without bias: weight [O, C/group, kh, kw]; pads are cut off the result."""
    images, channels, height, width = x.shape
    outputs = weight.shape[0]
    w = window
    full_h = (height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1 + output_padding[0]
    full_w = (width - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1 + output_padding[1]
    result = np.zeros((images, outputs, full_h, full_w))
    for g in range(group):
        mine = slice(g * outputs // group, (g + 1) * outputs // group)
        source = x[:, g * channels // group : (g + 1) * channels // group]
        for i in range(w.kernel_h):
            for j in range(w.kernel_w):
                top, left = i * w.dilation_h, j * w.dilation_w
                rows = slice(top, top + (height - 1) * w.stride_h + 1, w.stride_h)
                columns = slice(left, left + (width - 1) * w.stride_w + 1, w.stride_w)
                result[:, mine, rows, columns] += np.einsum("nchw,oc->nohw", source, weight[mine, :, i, j])
    return result[:, :, w.pad_top : full_h - w.pad_bottom, w.pad_left : full_w - w.pad_right]


def maximum(x: Array, window: Window) -> Array:
    """Maximum pool; padding is absent."""
    return np.asarray(_windows(x, window, -np.inf).max(axis=(-2, -1)))


def window_sums(x: Array, window: Window) -> Array:
    """Sums of every window; padding reads 0."""
    return np.asarray(_windows(x, window, 0.0).sum(axis=(-2, -1)))


def window_counts(window: Window, size: Sequence[int]) -> tuple[tuple[Array, int], tuple[Array, int]]:
    """Rows [1, 1, H, 1] and columns [1, 1, 1, W] of each window that lie on an image of `size`, and of how many."""
    on_image = _windows(np.ones((1, 1, *size)), window, 0.0)
    rows, columns = on_image.max(axis=-1).sum(axis=-1), on_image.max(axis=-2).sum(axis=-1)
    return (rows.max(axis=3, keepdims=True), window.kernel_h), (columns.max(axis=2, keepdims=True), window.kernel_w)


def sliced(x: NDArray[np.generic], op: TpuSlice) -> NDArray[np.generic]:
    """x[offset:end:step] on every axis."""
    return x[tuple(slice(a, e, s) for a, e, s in zip(op.offsets, op.ends, op.steps, strict=True))]


def padded(x: Array, op: TpuPad, value: float) -> Array:
    """Padding with `value`, reflected or repeated."""
    rank = len(op.pads) // 2
    widths = list(zip(op.pads[:rank], op.pads[rank:], strict=True))
    if op.method == "constant":
        return np.pad(x, widths, constant_values=value)
    return np.pad(x, widths, mode="reflect" if op.method == "reflect" else "edge")


def interpolated(x: Array, op: TpuInterp, size: Sequence[int]) -> Array:
    """H and W resized to `size` (linear), coordinates by ONNX's formulas."""
    for axis, length in ((2, size[0]), (3, size[1])):
        source = x.shape[axis]
        i = np.arange(length, dtype=np.float64)
        if op.coordinates == "align_corners":
            at = i * (source - 1) / max(1, length - 1)
        elif op.coordinates == "asymmetric":
            at = i * source / length
        elif op.coordinates == "pytorch_half_pixel" and length == 1:
            at = np.zeros(1)
        else:
            at = (i + 0.5) * source / length - 0.5
        at = np.clip(at, 0, source - 1)
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, source - 1)
        shape = [1] * x.ndim
        shape[axis] = -1
        part = (at - low).reshape(shape)
        x = np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part
    return x


def reduced(x: Array, op: TpuReduce) -> Array:
    """Reduction over the op's axes."""
    axes, keep = op.axes, op.keep_dims
    match op.function:
        case "mean":
            return np.asarray(x.mean(axis=axes, keepdims=keep))
        case "sum":
            return np.asarray(x.sum(axis=axes, keepdims=keep))
        case "max":
            return np.asarray(x.max(axis=axes, keepdims=keep))
        case "min":
            return np.asarray(x.min(axis=axes, keepdims=keep))
        case "l2":
            return np.asarray(np.sqrt((x * x).sum(axis=axes, keepdims=keep)))


def softmax(x: Array, axis: int, log: bool) -> Array:
    """Softmax, or its logarithm."""
    shifted = x - x.max(axis=axis, keepdims=True)
    total = np.exp(shifted).sum(axis=axis, keepdims=True)
    return np.asarray(shifted - np.log(total) if log else np.exp(shifted) / total)


def _windows(x: Array, window: Window, fill: float) -> Array:
    """[N, C, OH, OW, kh, kw]; what lies outside the image reads `fill`."""
    w = window
    pads = ((0, 0), (0, 0), (w.pad_top, w.pad_bottom), (w.pad_left, w.pad_right))
    wide = np.pad(x, pads, constant_values=fill) if w.has_padding else x
    span_h, span_w = (w.kernel_h - 1) * w.dilation_h + 1, (w.kernel_w - 1) * w.dilation_w + 1
    views = sliding_window_view(wide, (span_h, span_w), axis=(2, 3))
    return views[:, :, :: w.stride_h, :: w.stride_w, :: w.dilation_h, :: w.dilation_w]
