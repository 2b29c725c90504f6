"""What the TPU's ops compute beside convolution, in numpy on [N, C, ...] arrays: float64, exact on integers.

Sums of products of 8-bit integers stay below 2**53, so one implementation serves float ops and integer ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Window
from nnkit.program.convolution import convolve_transposed
from nnkit.program.window import padded as with_padding
from nnkit.program.window import taps
from nnkit_tpu.program import TpuGroupNorm, TpuInterp, TpuLayerNorm, TpuPad, TpuReduce, TpuSlice

Array = NDArray[np.float64]


def deconvolve(x: Array, weight: Array, window: Window, output_padding: tuple[int, int], group: int) -> Array:
    """Transposed convolution without bias: weight [O, C/group, kh, kw]; pads are cut off the result."""
    height, width = x.shape[2:]
    size = (
        (height - 1) * window.stride_h + window.span_h + output_padding[0] - window.pad_top - window.pad_bottom,
        (width - 1) * window.stride_w + window.span_w + output_padding[1] - window.pad_left - window.pad_right,
    )
    by_group = weight.reshape(group, -1, *weight.shape[1:]).swapaxes(1, 2)
    by_input = by_group.reshape(x.shape[1], -1, *weight.shape[2:])
    return convolve_transposed(x, by_input, window, group, size)


def maximum(x: Array, window: Window) -> Array:
    """Maximum pool; padding is absent."""
    return np.asarray(taps(with_padding(x, window, -np.inf), window).max(axis=(-2, -1)))


def window_sums(x: Array, window: Window) -> Array:
    """Sums of every window; padding reads 0."""
    return np.asarray(taps(with_padding(x, window, 0.0), window).sum(axis=(-2, -1)))


def window_counts(window: Window, size: Sequence[int]) -> tuple[tuple[Array, int], tuple[Array, int]]:
    """Rows [1, 1, H, 1] and columns [1, 1, 1, W] of each window that lie on an image of `size`, and of how many."""
    on_image = taps(with_padding(np.ones((1, 1, *size)), window, 0.0), window)
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


def normalised(x: Array, op: TpuLayerNorm) -> Array:
    """Mean 0 and variance 1 over the axes from the op's on, then its scale and bias."""
    axes = tuple(range(op.axis, x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    result = centred / np.sqrt((centred * centred).mean(axis=axes, keepdims=True) + op.epsilon)
    scaled = result if op.scale is None else result * op.scale.astype(np.float64)
    return np.asarray(scaled if op.bias is None else scaled + op.bias.astype(np.float64))


def normalised_by_groups(x: Array, op: TpuGroupNorm) -> Array:
    """Mean 0 and variance 1 over each group of channels, then scale and bias of each channel."""
    rows = x.reshape(len(x), op.groups, -1)
    centred = rows - rows.mean(axis=2, keepdims=True)
    result = (centred / np.sqrt((centred * centred).mean(axis=2, keepdims=True) + op.epsilon)).reshape(x.shape)
    channels = (1, -1, *(1,) * (x.ndim - 2))
    scaled = result if op.scale is None else result * op.scale.astype(np.float64).reshape(channels)
    return np.asarray(scaled if op.bias is None else scaled + op.bias.astype(np.float64).reshape(channels))
