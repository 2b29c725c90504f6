"""Layers with weights in float64: convolution, its transpose, the fully connected layer, and what runs in place.

Arrays have a batch axis; weights are OIHW (IOHW for the transpose), as ONNX has them. Large images are taken in
bands of rows, so that the gathered windows stay below `_BAND_BYTES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from nnkit.program.ops import Window

Array: TypeAlias = NDArray[np.float64]
_BAND_BYTES = 64 << 20


def convolution(x: Array, weight: Array, bias: Array | None, window: Window, groups: int) -> Array:
    """[N, C, H, W] -> [N, O, OH, OW]."""
    pads = ((0, 0), (0, 0), (window.pad_top, window.pad_bottom), (window.pad_left, window.pad_right))
    planes = np.pad(x, pads) if window.has_padding else x
    out_h, out_w = window.output_hw(x.shape[2], x.shape[3])
    result = np.empty((x.shape[0], weight.shape[0], out_h, out_w))
    span = ((window.kernel_h - 1) * window.dilation_h + 1, (window.kernel_w - 1) * window.dilation_w + 1)
    views = sliding_window_view(planes, span, axis=(2, 3))
    views = views[:, :, :: window.stride_h, :: window.stride_w, :: window.dilation_h, :: window.dilation_w]
    row_bytes = weight.shape[1] * groups * window.kernel_h * window.kernel_w * out_w * 8
    band = max(1, _BAND_BYTES // max(1, row_bytes))
    for index in range(x.shape[0]):
        for first in range(0, out_h, band):
            rows = slice(first, min(first + band, out_h))
            result[index, :, rows] = _band(views[index][:, rows], weight, groups)
    if bias is not None:
        result += bias.reshape(1, -1, 1, 1)
    return result


def _band(views: Array, weight: Array, groups: int) -> Array:
    """[C, rows, OW, kh, kw] -> [O, rows, OW]."""
    out, per_group = weight.shape[0], weight.shape[1]
    rows, width = views.shape[1:3]
    share = out // groups
    if per_group == 1:  # one tap at a time: no copies of the input
        result = np.zeros((out, rows, width))
        sources = np.repeat(np.arange(groups), share)
        for ky in range(weight.shape[2]):
            for kx in range(weight.shape[3]):
                result += views[sources, :, :, ky, kx] * weight[:, 0, ky, kx, None, None]
        return result
    parts = []
    for group in range(groups):
        columns = (
            views[group * per_group : (group + 1) * per_group].transpose(0, 3, 4, 1, 2).reshape(-1, rows * width)
        )
        kernel = weight[group * share : (group + 1) * share].reshape(share, -1)
        parts.append(kernel @ columns)
    return np.concatenate(parts).reshape(out, rows, width)


def transposed_convolution(
    x: Array, weight: Array, bias: Array | None, window: Window, groups: int, size: tuple[int, int]
) -> Array:
    """[N, C, H, W] -> [N, O, *size]: every input value adds its window to the output."""
    batch, channels, height, width = x.shape
    per_group, share = channels // groups, weight.shape[1]
    full_h = (height - 1) * window.stride_h + (window.kernel_h - 1) * window.dilation_h + 1
    full_w = (width - 1) * window.stride_w + (window.kernel_w - 1) * window.dilation_w + 1
    room_h = max(full_h, window.pad_top + size[0])
    room_w = max(full_w, window.pad_left + size[1])
    result = np.zeros((batch, share * groups, room_h, room_w))
    for group in range(groups):
        kernel = weight[group * per_group : (group + 1) * per_group]
        flat = x[:, group * per_group : (group + 1) * per_group].reshape(batch, per_group, -1)
        target = result[:, group * share : (group + 1) * share]
        for ky in range(window.kernel_h):
            for kx in range(window.kernel_w):
                added = np.einsum("io,nip->nop", kernel[:, :, ky, kx], flat, optimize=True)
                top, left = ky * window.dilation_h, kx * window.dilation_w
                bottom, right = top + (height - 1) * window.stride_h + 1, left + (width - 1) * window.stride_w + 1
                place = (slice(None), slice(None), slice(top, bottom, window.stride_h))
                target[(*place, slice(left, right, window.stride_w))] += added.reshape(batch, share, height, width)
    cut = result[:, :, window.pad_top : window.pad_top + size[0], window.pad_left : window.pad_left + size[1]]
    return np.asarray(cut if bias is None else cut + bias.reshape(1, -1, 1, 1))


ActivationKind: TypeAlias = Literal["relu", "leaky", "prelu", "sigmoid", "tanh", "abs", "softplus", "elu"]


@dataclass(frozen=True, eq=False)
class InPlaceActivation:
    """What happens to a layer's sums before they are stored. slopes: [1] or [C], for `leaky`, `prelu` and `elu`."""

    kind: ActivationKind
    slopes: NDArray[Any]


def activate(x: Array, activation: InPlaceActivation) -> Array:
    """The activation of [N, C, ...]."""
    slopes = activation.slopes.astype(np.float64).reshape(1, -1, *[1] * (x.ndim - 2))
    match activation.kind:
        case "relu":
            return np.maximum(x, 0.0)
        case "leaky" | "prelu":
            return np.where(x < 0.0, x * slopes, x)
        case "sigmoid":
            return np.asarray(0.5 * (1.0 + np.tanh(0.5 * x)))
        case "tanh":
            return np.asarray(np.tanh(x))
        case "abs":
            return np.asarray(np.abs(x))
        case "softplus":
            return np.asarray(np.logaddexp(0.0, x))
        case "elu":
            return np.where(x < 0.0, slopes * np.expm1(np.minimum(x, 0.0)), x)
