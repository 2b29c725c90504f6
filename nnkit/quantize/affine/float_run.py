"""Float layers in float32 on many inputs at a time: what corrections compare the integer program with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError
from nnkit.program.affine.onnx_op import run_onnx
from nnkit.program.convolution import convolve, convolve_transposed
from nnkit.program.sliced import sliced
from nnkit.program.window import padded, taps
from nnkit.quantize.float_program import (
    FloatActivation,
    FloatAdd,
    FloatAveragePool,
    FloatConcat,
    FloatConv2d,
    FloatConvTranspose2d,
    FloatEmbedding,
    FloatFunction,
    FloatLogSoftmax,
    FloatMatMul,
    FloatMaxPool,
    FloatMul,
    FloatNormalizeRows,
    FloatOnnx,
    FloatOp,
    FloatPad,
    FloatProgram,
    FloatReshape,
    FloatSlice,
    FloatSoftmax,
    FloatTranspose,
    FloatUpsample,
    Nonlinearity,
)

_COLUMN_BYTES = 32 << 20
_VALUES_BYTES = 128 << 20
_PART = 8


def all_values(
    layers: FloatProgram, samples: Mapping[str, NDArray[np.float32]]
) -> Iterator[dict[str, NDArray[np.float32]]]:
    """Every value of the float network [n, ...] by name, a few samples at a time, so that memory stays bounded.

    layers: of `split_pools`; samples: [N, ...] in real units by input name.
    """
    per_sample = 4 * sum(int(np.prod(shape)) for shape in layers.shapes.values())
    step = max(1, min(_PART, _VALUES_BYTES // max(per_sample, 1)))
    for start in range(0, len(next(iter(samples.values()))), step):
        values: dict[str, NDArray[Any]] = {name: samples[name][start : start + step] for name in layers.inputs}
        for layer in layers.ops:
            before = before_activation(layer, [values[name] for name in layer.inputs], layers.shapes[layer.output])
            values[layer.output] = activate(before, layer.nonlinearity)
        yield values


def before_activation(layer: FloatOp, x: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A layer's values [N, *shape] before its activation, from inputs [N, ...]."""
    match layer:
        case FloatConv2d() | FloatConvTranspose2d():
            return _conv(layer, x[0], shape)
        case FloatMaxPool():
            return np.asarray(taps(padded(x[0], layer.window, -np.inf), layer.window).max(axis=(4, 5)))
        case FloatAveragePool():
            return _average(layer, x[0])
        case FloatAdd():
            return np.asarray(x[0] + x[1])
        case FloatMul():
            return np.asarray(x[0] * x[1])
        case FloatActivation():
            return x[0]
        case FloatEmbedding():
            return layer.table[x[0].astype(np.int64)].astype(np.float32)
        case FloatConcat():
            return np.concatenate(x, axis=1)
        case FloatReshape():
            return x[0].reshape(len(x[0]), *shape)
        case FloatUpsample():
            return x[0].repeat(layer.scale_h, axis=2).repeat(layer.scale_w, axis=3)
        case FloatNormalizeRows():
            spread = np.sqrt(x[0].var(axis=-1, keepdims=True) + layer.epsilon)
            z = (x[0] - x[0].mean(axis=-1, keepdims=True)) / spread
            return np.asarray(z * layer.gain + layer.offset, np.float32)
        case FloatMatMul():
            return np.asarray(x[0] @ x[1])
        case FloatFunction():
            return layer.function.values(x[0].astype(np.float64)).astype(np.float32)
        case FloatSoftmax():
            powers = np.exp(x[0] - x[0].max(axis=layer.axis + 1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=layer.axis + 1, keepdims=True))
        case FloatLogSoftmax():
            below = x[0] - x[0].max(axis=layer.axis + 1, keepdims=True)
            return np.asarray(below - np.log(np.exp(below).sum(axis=layer.axis + 1, keepdims=True)))
        case FloatOnnx():
            return run_onnx(layer.model, x)
        case FloatTranspose():
            return x[0].transpose(0, *(axis + 1 for axis in layer.order))
        case FloatSlice():
            return sliced(x[0], layer.starts, layer.steps, shape)
        case FloatPad():
            top, left, bottom, right = layer.pads
            return np.pad(x[0], ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=layer.value)
    raise InternalError(f"{type(layer).__name__} has no definition in float", where=layer.name)


def activate(values: NDArray[Any], activation: Nonlinearity | None) -> NDArray[Any]:
    """The activation of [N, C, ...] values."""
    if activation is None:
        return values
    if activation.slopes is not None:
        slopes = activation.slopes.astype(values.dtype).reshape((1, -1) + (1,) * (values.ndim - 2))
        return np.asarray(np.where(values < 0, values * slopes, values))
    if activation.low is None and activation.high is None:
        return values
    return np.asarray(np.clip(values, activation.low, activation.high))


def _conv(layer: FloatConv2d | FloatConvTranspose2d, x: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    weight, window = layer.weight.astype(np.float32), layer.window
    per_input = 16 * int(np.prod(shape[-2:])) * int(np.prod(weight.shape[1:]))
    step = max(1, _COLUMN_BYTES // per_input)
    parts = []
    for start in range(0, len(x), step):
        part = x[start : start + step]
        if isinstance(layer, FloatConv2d):
            parts.append(convolve(part, weight, window, layer.groups, layer.pad_value))
        else:
            parts.append(convolve_transposed(part, weight, window, layer.groups, shape))
    return np.asarray(np.concatenate(parts) + layer.bias.astype(np.float32)[:, None, None])


def _average(layer: FloatAveragePool, x: NDArray[Any]) -> NDArray[np.float32]:
    window = layer.window
    sums = taps(padded(x, window, 0.0), window).sum(axis=(4, 5))
    if layer.counts_padding:
        return np.asarray(sums / np.float32(window.kernel_h * window.kernel_w))
    ones = np.ones((1, 1, *x.shape[2:]), np.float32)
    return np.asarray(sums / taps(padded(ones, window, 0.0), window).sum(axis=(4, 5)))
