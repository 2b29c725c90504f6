"""Float layers in float32 on many inputs at a time: what corrections compare the integer program with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError
from nnkit.quantize.layers import FloatActivation, FloatLayer, FloatLayers
from nnkit.simulate.affine import convolve, convolve_transposed, padded, taps

_COLUMN_BYTES = 32 << 20
_VALUES_BYTES = 128 << 20
_PART = 8


def all_values(
    layers: FloatLayers, samples: Mapping[str, NDArray[np.float32]]
) -> Iterator[dict[str, NDArray[np.float32]]]:
    """Every value of the float network [n, ...] by name, a few samples at a time, so that memory stays bounded.

    layers: of `split_pools`; samples: [N, ...] in real units by input name.
    """
    per_sample = 4 * sum(int(np.prod(shape)) for shape in layers.shapes.values())
    step = max(1, min(_PART, _VALUES_BYTES // max(per_sample, 1)))
    for start in range(0, len(next(iter(samples.values()))), step):
        values: dict[str, NDArray[Any]] = {name: samples[name][start : start + step] for name in layers.inputs}
        for layer in layers.layers:
            before = before_activation(layer, [values[name] for name in layer.inputs], layers.shapes[layer.output])
            values[layer.output] = activate(before, layer.activation)
        yield values


def before_activation(layer: FloatLayer, x: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A layer's values [N, *shape] before its activation, from inputs [N, ...]."""
    match layer.kind:
        case "conv2d" | "conv_transpose2d":
            return _conv(layer, x[0], shape)
        case "max_pool" | "average_pool":
            return _pool(layer, x[0])
        case "add":
            return np.asarray(x[0] + x[1])
        case "mul":
            return np.asarray(x[0] * x[1])
        case "activation":
            return x[0]
        case "concat":
            return np.concatenate(x, axis=1)
        case "reshape":
            return x[0].reshape(len(x[0]), *shape)
        case "upsample":
            return x[0].repeat(layer.scale_hw[0], axis=2).repeat(layer.scale_hw[1], axis=3)
        case "pad":
            top, left, bottom, right = layer.pads
            return np.pad(x[0], ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=layer.pad_value)


def activate(values: NDArray[Any], activation: FloatActivation | None) -> NDArray[Any]:
    """The activation of [N, C, ...] values."""
    if activation is None:
        return values
    if activation.slopes is not None:
        slopes = activation.slopes.astype(values.dtype).reshape((1, -1) + (1,) * (values.ndim - 2))
        return np.asarray(np.where(values < 0, values * slopes, values))
    if activation.low is None and activation.high is None:
        return values
    return np.asarray(np.clip(values, activation.low, activation.high))


def _conv(layer: FloatLayer, x: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    if layer.weight is None or layer.bias is None or layer.window is None:
        raise ModelError("a convolution without weights", where=layer.name)
    weight, window = layer.weight.astype(np.float32), layer.window
    per_input = 16 * int(np.prod(shape[-2:])) * int(np.prod(weight.shape[1:]))
    step = max(1, _COLUMN_BYTES // per_input)
    parts = []
    for start in range(0, len(x), step):
        part = x[start : start + step]
        if layer.kind == "conv2d":
            parts.append(convolve(part, weight, window, layer.groups, layer.pad_value))
        else:
            parts.append(convolve_transposed(part, weight, window, layer.groups, shape))
    return np.asarray(np.concatenate(parts) + layer.bias.astype(np.float32)[:, None, None])


def _pool(layer: FloatLayer, x: NDArray[Any]) -> NDArray[np.float32]:
    if layer.pool is None:
        raise ModelError("a pool without a window", where=layer.name)
    window = layer.pool.window
    if layer.pool.kind == "max":
        return np.asarray(taps(padded(x, window, -np.inf), window).max(axis=(4, 5)))
    sums = taps(padded(x, window, 0.0), window).sum(axis=(4, 5))
    if layer.pool.count_include_pad:
        return np.asarray(sums / np.float32(window.kernel_h * window.kernel_w))
    ones = np.ones((1, 1, *x.shape[2:]), np.float32)
    return np.asarray(sums / taps(padded(ones, window, 0.0), window).sum(axis=(4, 5)))
