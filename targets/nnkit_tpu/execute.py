"""One op of a quantised program on stored values: integers as the chip computes them, or floats in its precision.

An INT8 op casts float inputs to its own format first, a float op dequantises integers. Floats are computed in float64
and rounded once to the op's precision; the chip accumulates in float32, so the two may differ in the last bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError
from nnkit.program import Tensor
from nnkit.program.convolution import convolve
from nnkit.program.formats import Affine
from nnkit_tpu import kernels
from nnkit_tpu.arithmetic import activation, apply, round_half_away, stored_constant
from nnkit_tpu.casts import cast, rounded
from nnkit_tpu.integer_parameters import IntegerOperands, IntegerTable, IntegerWeights, Requant, ScaledSum
from nnkit_tpu.program import (
    TpuActivation,
    TpuBinary,
    TpuConcat,
    TpuConv,
    TpuDeconv,
    TpuEmbedding,
    TpuGroupNorm,
    TpuInterp,
    TpuLayerNorm,
    TpuMatMul,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuRectified,
    TpuReduce,
    TpuReshape,
    TpuScale,
    TpuSlice,
    TpuSoftmax,
    TpuUpsample,
)
from nnkit_tpu.recurrent import TpuRecurrent, run_over_steps

Values = NDArray[Any]


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def execute(op: TpuOp, inputs: Sequence[Values], output: Tensor) -> Values:
    """Stored values in, stored values out, without the batch axis. What overflows is infinite, as on the chip."""
    if isinstance(op, TpuEmbedding):
        rows = np.clip(np.trunc(np.asarray(inputs[0], np.float64)), 0, len(op.table) - 1).astype(np.int64)
        return rounded(op.table, op.mode)[rows].astype(output.format.dtype)
    values = [cast(np.asarray(x)[None], how, op.mode) for x, how in zip(inputs, op.casts, strict=True)]
    if op.mode == "INT8":
        target = output.format
        if not isinstance(target, Affine):
            raise InternalError("an INT8 op gives integers", where=op.name)
        result = _integer(op, [v.astype(np.int64) for v in values], target, output.shape)
    else:
        result = rounded(_float(op, [v.astype(np.float64) for v in values], output.shape), op.mode)
    return np.asarray(result[0]).astype(output.format.dtype)


def _relu(op: TpuOp, values: Values, zero: int = 0) -> Values:
    return np.maximum(values, zero) if isinstance(op, TpuRectified) and op.relu else values


def _integer(op: TpuOp, x: list[NDArray[np.int64]], target: Affine, shape: tuple[int, ...]) -> Values:
    """The integer result, saturated to the output's format."""
    full, zero = (x[0].shape[0], *shape), target.zero_point[0]
    moved = _moved(op, x, full)
    if moved is not None:
        return np.clip(moved, target.qmin, target.qmax)
    match op:
        case TpuConv() | TpuDeconv() | TpuMatMul() if isinstance(op.integer, IntegerWeights):
            result = _weighted(op, op.integer, x) + zero
        case TpuMatMul() if isinstance(op.integer, Requant):
            product = np.matmul(x[0].astype(np.float64), x[1].astype(np.float64)).astype(np.int64)
            result = apply(op.integer, product)
        case TpuPool() if op.function == "max":
            result = kernels.maximum(x[0].astype(np.float64), op.window).astype(np.int64)
        case TpuPool() if isinstance(op.integer, ScaledSum):
            result = _scaled_sum(op.integer, kernels.window_sums(x[0].astype(np.float64), op.window))
        case TpuPool() if isinstance(op.integer, Requant):
            result = _average(op, op.integer, x[0], target)
        case TpuReduce() if isinstance(op.integer, Requant):
            total = kernels.reduced(x[0].astype(np.float64), replace(op, function="sum")).astype(np.int64)
            result = apply(op.integer, total.reshape(full))
        case TpuReduce() if op.function in ("max", "min"):
            result = kernels.reduced(x[0].astype(np.float64), op).astype(np.int64).reshape(full)
            if op.function == "min":  # the largest of what is negated, in 8 bits
                result = np.maximum(result, -target.qmax)
        case TpuBinary() if isinstance(op.integer, IntegerOperands):
            result = _operands(op, op.integer, _with_constant(op, x))
        case TpuBinary() if isinstance(op.integer, Requant):
            left, right = _with_constant(op, x)
            result = apply(op.integer, left * right)
        case TpuConcat() if isinstance(op.integer, IntegerOperands):
            parts = [apply(stage, part) for stage, part in zip(_stages(op.integer), x, strict=True)]
            result = np.concatenate([np.clip(part, target.qmin, target.qmax) for part in parts], axis=op.axis)
        case TpuActivation() if isinstance(op.integer, IntegerTable):
            result = op.integer.table[x[0] & 0xFF]
        case TpuActivation() if isinstance(op.integer, IntegerWeights):
            slopes = op.integer.weight.astype(np.int64).reshape(1, -1, *(1,) * (x[0].ndim - 2))
            result = np.where(x[0] < 0, apply(op.integer.requant, x[0] * slopes), x[0])
        case TpuActivation() if isinstance(op.integer, Requant):
            result = np.where(x[0] < 0, apply(op.integer, x[0]), x[0])
        case TpuActivation() if op.function in ("relu", "abs"):
            result = np.maximum(x[0], 0) if op.function == "relu" else np.abs(x[0])
        case _:
            real = [cast_.target.dequantize(v) for cast_, v in zip(op.casts, x, strict=True)]
            result = round_half_away(_float(op, real, shape) / target.scale[0]).astype(np.int64) + zero
    return np.clip(_relu(op, result, zero), target.qmin, target.qmax)


def _stages(integer: IntegerOperands) -> list[Requant]:
    pairs = zip(integer.multipliers, integer.shifts, strict=True)
    return [Requant(np.array([m]), np.array([s]), integer.rounding) for m, s in pairs]


def _with_constant(op: TpuBinary, x: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """The stored operands, the constant one in its own format."""
    return x if op.constant is None else [*x, stored_constant(op.constant, factor=op.function == "mul")]


def _operands(op: TpuBinary, integer: IntegerOperands, x: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Sum or difference of operands that are rescaled one by one, or together."""
    if integer.joint:
        left, right = (value * m for value, m in zip(x, integer.multipliers, strict=True))
        stage = Requant(np.ones(1, np.int64), np.array(integer.shifts[:1]), integer.rounding)
        return apply(stage, left - right if op.function == "sub" else left + right)
    left, right = (apply(stage, value) for stage, value in zip(_stages(integer), x, strict=True))
    return left - right if op.function == "sub" else left + right


def _average(op: TpuPool, stage: Requant, x: NDArray[np.int64], target: Affine) -> Values:
    """The sum over the whole kernel's size; then, where padding does not count, corrected in rows and in columns.

    A correction multiplies the rounded value by the kernel's length and by 1 / (rows or columns that count) in BF16.
    """
    result = apply(stage, kernels.window_sums(x.astype(np.float64), op.window).astype(np.int64))
    if op.count_include_pad or not op.window.has_padding:
        return result
    for counts, length in kernels.window_counts(op.window, x.shape[2:]):
        reciprocal = rounded(1.0 / counts, "BF16").astype(np.float64)
        factors = np.where(counts == length, 1.0, length * reciprocal)
        real: NDArray[np.float64] = np.clip(result, target.qmin, target.qmax).astype(np.float64) * factors
        result = round_half_away(real).astype(np.int64)
    return result


def _scaled_sum(integer: ScaledSum, sums: NDArray[np.float64]) -> NDArray[np.int64]:
    """An average as the chip computes it: product and sum are each rounded to float32."""
    scaled = sums.astype(np.float32) * np.float32(integer.scale) + np.float32(integer.offset)
    return round_half_away(scaled.astype(np.float64)).astype(np.int64)


def _weighted(op: TpuConv | TpuDeconv | TpuMatMul, integer: IntegerWeights, x: list[NDArray[np.int64]]) -> Values:
    weight, data = integer.weight.astype(np.float64), x[0].astype(np.float64)
    if isinstance(op, TpuMatMul):
        acc = np.matmul(data, weight).astype(np.int64)
        return apply(integer.requant, acc if integer.bias is None else acc + integer.bias.astype(np.int64), -1)
    if isinstance(op, TpuConv):
        acc = convolve(data, weight, op.window, op.group, _zero(op)).astype(np.int64)
    else:
        acc = kernels.deconvolve(data, weight, op.window, op.output_padding, op.group).astype(np.int64)
    if integer.bias is not None:
        acc = acc + integer.bias.astype(np.int64).reshape(1, -1, 1, 1)
    return apply(integer.requant, acc)


def _zero(op: TpuOp) -> float:
    """The stored integer of its input that stands for 0, which padding reads."""
    source = op.casts[0].target
    return float(source.zero_point[0]) if isinstance(source, Affine) else 0.0


def _moved(op: TpuOp, x: Sequence[Values], full: tuple[int, ...]) -> Values | None:
    """The result of an op that moves values without computing; None for any other."""
    match op:
        case TpuSlice():
            return kernels.sliced(x[0], op)
        case TpuReshape():
            return np.reshape(x[0], full)
        case TpuPermute():
            return np.transpose(x[0], op.order)
        case TpuUpsample():
            return _relu(op, np.repeat(np.repeat(x[0], op.scale_h, 2), op.scale_w, 3))
        case _:
            return None


def _float(op: TpuOp, x: list[Values], shape: tuple[int, ...]) -> Values:
    """The op on real values, activation included."""
    full = (x[0].shape[0], *shape)
    moved = _moved(op, x, full)
    if moved is not None:
        return moved
    match op:
        case TpuConv():
            result = _with_bias(convolve(x[0], _weights(op), op.window, op.group, 0.0), op.bias)
        case TpuDeconv():
            product = kernels.deconvolve(x[0], _weights(op), op.window, op.output_padding, op.group)
            result = _with_bias(product, op.bias)
        case TpuMatMul():
            result = np.matmul(x[0], x[1] if op.weight is None else _weights(op))
            result = result if op.bias is None else result + op.bias.astype(np.float64)
        case TpuPool() if op.function == "max":
            result = kernels.maximum(x[0], op.window)
        case TpuPool():
            (rows, height), (columns, width) = kernels.window_counts(op.window, x[0].shape[2:])
            taps = height * width if op.count_include_pad else rows * columns
            result = kernels.window_sums(x[0], op.window) / taps
        case TpuBinary():
            result = _binary(op, x)
        case TpuScale():
            channels = (1, -1, *(1,) * (x[0].ndim - 2))
            result = x[0] * op.scale.astype(np.float64).reshape(channels) + op.bias.reshape(channels)
        case TpuConcat():
            result = np.concatenate(x, axis=op.axis)
        case TpuActivation() if op.function == "prelu" and op.slopes is not None:
            slopes = op.slopes.astype(np.float64).reshape(1, -1, *(1,) * (x[0].ndim - 2))
            result = np.where(x[0] < 0, x[0] * slopes, x[0])
        case TpuActivation():
            result = activation(op)(x[0])
        case TpuSoftmax():
            result = kernels.softmax(x[0], op.axis, op.log)
        case TpuLayerNorm():
            result = kernels.normalised(x[0], op)
        case TpuGroupNorm():
            result = kernels.normalised_by_groups(x[0], op)
        case TpuRecurrent():
            result = run_over_steps(op, x[0])
        case TpuInterp():
            result = kernels.interpolated(x[0], op, shape[-2:])
        case TpuPad():
            result = kernels.padded(x[0], op, op.value)
        case TpuReduce():
            result = kernels.reduced(x[0], op).reshape(full)
        case _:
            raise InternalError(f"the op {op.kind!r} has no arithmetic", where=op.name)
    result = _relu(op, result)
    limit = op.upper_limit if isinstance(op, TpuRectified) else np.inf
    return np.minimum(result, limit) if limit < np.inf else result


def _weights(op: TpuConv | TpuDeconv | TpuMatMul) -> Values:
    """Weights in the op's precision."""
    if op.weight is None:
        raise InternalError("the op has no weights", where=op.name)
    return rounded(op.weight, op.mode).astype(np.float64) if op.mode != "INT8" else op.weight.astype(np.float64)


def _with_bias(values: Values, bias: Values | None) -> Values:
    return values if bias is None else values + bias.astype(np.float64).reshape(1, -1, 1, 1)


def _binary(op: TpuBinary, x: Sequence[Values]) -> Values:
    if op.constant is not None:
        constant = op.constant.astype(np.float64)
        left, right = (constant, x[0]) if op.constant_first else (x[0], constant)
    else:
        left, right = x[0], x[1]
    functions = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "min": np.minimum,
        "max": np.maximum,
    }
    return np.asarray(functions[op.function](left, right))
