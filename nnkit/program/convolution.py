"""Convolution as matrix products, many inputs at a time; exact on integers in the type that `exact_type` gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program.window import Window, padded, taps

_FLOAT32_EXACT_BELOW = 1 << 24
_FLOAT64_EXACT_BELOW = 1 << 53


def exact_type(weight: NDArray[np.int64], reach: int, output_axis: int) -> np.dtype[Any]:
    """The fastest type in which sums of these weights times integers of at most `reach` are exact in any order.

    Sums of integers in float32 are exact while every partial sum stays below 2^24, in float64 below 2^53; beyond,
    they are taken in int64. output_axis: of the output channels, of which each has a sum of its own.
    """
    others = tuple(axis for axis in range(weight.ndim) if axis != output_axis)
    bound = int(np.abs(weight).sum(axis=others).max(initial=0)) * reach
    if bound < _FLOAT32_EXACT_BELOW:
        return np.dtype(np.float32)
    return np.dtype(np.float64 if bound < _FLOAT64_EXACT_BELOW else np.int64)


def convolve(x: NDArray[Any], w: NDArray[Any], window: Window, groups: int, pad_value: float) -> NDArray[Any]:
    """Convolution of [N, C, H, W] with [O, I/g, kh, kw] in the arrays' type: [N, O, OH, OW], without bias."""
    return convolve_windows(taps(padded(x, window, pad_value), window), w, groups)


def convolve_windows(views: NDArray[Any], w: NDArray[Any], groups: int) -> NDArray[Any]:
    """`convolve` of gathered windows [N, C, OH, OW, kh, kw], of which a part may be taken at a time."""
    count, channels, out_h, out_w = views.shape[:4]
    per_in, per_out = channels // groups, w.shape[0] // groups
    if per_in == 1:  # depthwise: one tap at a time, no copies of windows
        acc = np.zeros((count, w.shape[0], out_h, out_w), views.dtype)
        for ky in range(w.shape[2]):
            for kx in range(w.shape[3]):
                tap = views[..., ky, kx]
                tap = np.repeat(tap, per_out, axis=1) if per_out > 1 else tap
                acc += tap * w[:, 0, ky, kx, None, None]
        return acc
    results = []
    for group in range(groups):
        part = views[:, group * per_in : (group + 1) * per_in]
        columns = part.transpose(0, 1, 4, 5, 2, 3).reshape(count, -1, out_h * out_w)
        kernel = w[group * per_out : (group + 1) * per_out].reshape(per_out, -1)
        results.append(np.matmul(kernel, columns).reshape(count, per_out, out_h, out_w))
    return results[0] if groups == 1 else np.concatenate(results, axis=1)


def convolve_transposed(
    x: NDArray[Any], w: NDArray[Any], window: Window, groups: int, output_shape: tuple[int, ...]
) -> NDArray[Any]:
    """Transposed convolution of [N, C, H, W] with [I, O/g, kh, kw] to [N, *output_shape], without bias."""
    count, channels, height, width = x.shape
    per_in, per_out = channels // groups, w.shape[1]
    out_h, out_w = output_shape[-2:]
    full_h = max((height - 1) * window.stride_h + window.span_h, window.pad_top + out_h)
    full_w = max((width - 1) * window.stride_w + window.span_w, window.pad_left + out_w)
    full = np.zeros((count, per_out * groups, full_h, full_w), x.dtype)
    for group in range(groups):
        columns = x[:, group * per_in : (group + 1) * per_in].reshape(count, per_in, -1)
        for ky in range(window.kernel_h):
            for kx in range(window.kernel_w):
                kernel = w[group * per_in : (group + 1) * per_in, :, ky, kx].T
                part = np.matmul(np.ascontiguousarray(kernel), columns).reshape(count, per_out, height, width)
                top, left = ky * window.dilation_h, kx * window.dilation_w
                full[
                    :,
                    group * per_out : (group + 1) * per_out,
                    top : top + (height - 1) * window.stride_h + 1 : window.stride_h,
                    left : left + (width - 1) * window.stride_w + 1 : window.stride_w,
                ] += part
    rows = slice(window.pad_top, window.pad_top + out_h)
    return full[:, :, rows, window.pad_left : window.pad_left + out_w]
