"""Bit-exact simulation of affine integer programs, many inputs at a time.

Method: im2col and a matrix product in float32 where every partial sum stays below 2^24, else in float64 (below 2^53:
also 2^20 products of 16-bit integers stay there): sums of integers are then exact in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.program.affine import (
    AffineActivation,
    AffineAdd,
    AffineConcat,
    AffineConv,
    AffineMove,
    AffineMul,
    AffineOp,
    AffinePool,
    AffineProgram,
    AffineTensor,
    IntArray,
    Requantize,
)
from nnkit.program.ops import Window

_FLOAT32_EXACT = 1 << 24
_HALF_BITS = 31  # of a product that needs more than 64
_BEYOND = 1 << 32  # any result of that size is clamped, whatever it is
_COLUMN_BYTES = 32 << 20  # im2col scratch: inputs are taken so many at a time that it stays below


def simulate_affine(program: AffineProgram, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Execute the program on stored integers [N, ...]; returns its outputs by name, [N, ...] in their storage type.

    Raises UsageError for a missing, misshapen or out-of-range input.
    """
    values: dict[str, NDArray[Any]] = {
        name: _checked(program.tensors[name], inputs.get(name)) for name in program.inputs
    }
    last = {name: index for index, op in enumerate(program.ops) for name in op.inputs}
    for index, op in enumerate(program.ops):
        values[op.output] = run_op(op, [values[name] for name in op.inputs], program.tensors)
        for name in op.inputs:
            if last[name] == index and name not in program.outputs:
                values.pop(name, None)
    return {name: values[name] for name in program.outputs}


def simulate_one(program: AffineProgram, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Execute the program on one input without a batch axis; returns every tensor by name, likewise.

    Raises UsageError for a missing, misshapen or out-of-range input.
    """
    values: dict[str, NDArray[Any]] = {}
    for name in program.inputs:
        given = inputs.get(name)
        values[name] = _checked(program.tensors[name], None if given is None else np.asarray(given)[None])
    for op in program.ops:
        values[op.output] = run_op(op, [values[name] for name in op.inputs], program.tensors)
    return {name: value[0] for name, value in values.items()}


def run_op(op: AffineOp, x: list[NDArray[Any]], tensors: Mapping[str, AffineTensor]) -> NDArray[Any]:
    """Run one op on stored integers [N, ...]; the result has the output's storage type."""
    output = tensors[op.output]
    zeros = [tensors[name].zero_point for name in op.inputs]
    match op:
        case AffineConv():
            result = requantized(accumulate(op, x[0], tensors[op.inputs[0]], output.shape), op.requantize, output)
        case AffinePool():
            result = _pool(op, x[0], zeros[0], output)
        case AffineAdd():
            a, b = op.multipliers
            result = requantized(_centred(x[0], zeros[0]) * a + _centred(x[1], zeros[1]) * b, op.requantize, output)
        case AffineMul():
            result = requantized(_centred(x[0], zeros[0]) * _centred(x[1], zeros[1]), op.requantize, output)
        case AffineActivation():
            result = requantized(_centred(x[0], zeros[0]), op.requantize, output)
        case AffineConcat():
            parts = [
                part if stage is None else requantized(_centred(part, zero), stage, output)
                for part, zero, stage in zip(x, zeros, op.requantize, strict=True)
            ]
            result = np.concatenate(parts, axis=1)
        case AffineMove():
            result = _move(op, x[0], output)
    return np.asarray(result).astype(output.format.dtype)


def requantized(acc: IntArray, stage: Requantize, output: AffineTensor) -> IntArray:
    """RQ, zero point and clamp of accumulators [N, C, ...] (channels on axis 1)."""
    shape = (1, -1) + (1,) * (acc.ndim - 2) if stage.multiplier.size > 1 or _per_channel(stage) else (1,) * acc.ndim
    multiplier: IntArray = stage.multiplier.reshape(shape)
    shift = stage.shift.reshape(shape)
    if stage.negative_multiplier is not None:
        multiplier = np.where(acc < 0, stage.negative_multiplier.reshape(shape), multiplier)
    value = rounded_product(acc, multiplier, shift)
    return np.asarray(np.clip(value + output.zero_point, stage.clip_min, stage.clip_max))


def rounded_product(acc: IntArray, multiplier: IntArray, shift: IntArray) -> IntArray:
    """RQ of the program's arithmetic: (acc * multiplier + 2^(shift-1)) >> shift, the product as wide as it gets.

    Exact, except that a result beyond 2^32 is some number beyond 2^31 of the same sign: every format clamps it.
    """
    half = np.int64(1) << (shift - 1)
    if max(int(acc.max(initial=0)), -int(acc.min(initial=0))) < 1 << _HALF_BITS:
        return np.asarray((acc * multiplier + half) >> shift)
    low_part = (acc & ((1 << _HALF_BITS) - 1)) * multiplier + half  # acc = high * 2^31 + low, 0 <= low < 2^31
    high = (acc >> _HALF_BITS) * multiplier + (low_part >> _HALF_BITS)
    down = np.maximum(shift - _HALF_BITS, 0)
    up = np.maximum(_HALF_BITS - shift, 0)
    rest = (low_part & ((1 << _HALF_BITS) - 1)) >> np.minimum(shift, _HALF_BITS)
    return np.asarray(np.where(up > 0, (np.clip(high, -_BEYOND, _BEYOND) << up) + rest, high >> down))


def accumulate(op: AffineConv, x: NDArray[Any], source: AffineTensor, output_shape: tuple[int, ...]) -> IntArray:
    """The accumulators of a conv of `source`'s values x [N, C, H, W], as int64 [N, O, OH, OW]."""
    zero_point = source.zero_point
    weight = op.weight.astype(np.int64) - _weight_zero_points(op)
    bound = int(np.abs(weight).sum(axis=(0, 2, 3) if op.transposed else (1, 2, 3)).max(initial=0)) * source.reach
    dtype = np.dtype(np.float32 if bound < _FLOAT32_EXACT else np.float64)
    data = x.astype(dtype) - dtype.type(zero_point)
    run = _transposed if op.transposed else _convolve
    per_input = 4 * dtype.itemsize * max(1, int(np.prod(output_shape[-2:]))) * int(np.prod(op.weight.shape[1:]))
    step = max(1, _COLUMN_BYTES // per_input)
    parts = [
        run(op, data[i : i + step], weight.astype(dtype), zero_point, output_shape) for i in range(0, len(x), step)
    ]
    return np.concatenate(parts).astype(np.int64) + op.bias.astype(np.int64)[:, None, None]


def _per_channel(stage: Requantize) -> bool:
    return stage.negative_multiplier is not None and stage.negative_multiplier.size > 1


def _weight_zero_points(op: AffineConv) -> IntArray:
    shape = [1] * op.weight.ndim
    if op.weight_format.axis is not None:
        shape[op.weight_format.axis] = -1
    return np.asarray(op.weight_format.zero_point, np.int64).reshape(shape)


def _checked(tensor: AffineTensor, value: NDArray[Any] | None) -> NDArray[Any]:
    if value is None:
        raise UsageError("no value given for this input", where=tensor.name, remedy="pass every program input")
    if value.shape[1:] != tensor.shape:
        raise UsageError(f"shape {value.shape[1:]} given, {tensor.shape} expected", where=tensor.name)
    if value.size and (int(value.min()) < tensor.format.qmin or int(value.max()) > tensor.format.qmax):
        raise UsageError("values outside the input's format", where=tensor.name, remedy="quantise them first")
    return value.astype(tensor.format.dtype)


def _centred(x: NDArray[Any], zero_point: int) -> IntArray:
    return np.asarray(x.astype(np.int64) - zero_point)


def padded(x: NDArray[Any], window: Window, value: float) -> NDArray[Any]:
    """[N, C, H, W] with the window's padding filled with `value`."""
    if not window.has_padding:
        return x
    pads = ((0, 0), (0, 0), (window.pad_top, window.pad_bottom), (window.pad_left, window.pad_right))
    return np.pad(x, pads, constant_values=value)


def taps(x: NDArray[Any], window: Window) -> NDArray[Any]:
    """Views of every window: padded [N, C, H, W] -> [N, C, OH, OW, kh, kw] (no copy)."""
    span = ((window.kernel_h - 1) * window.dilation_h + 1, (window.kernel_w - 1) * window.dilation_w + 1)
    views = sliding_window_view(x, span, axis=(2, 3))
    return views[:, :, :: window.stride_h, :: window.stride_w, :: window.dilation_h, :: window.dilation_w]


def _convolve(op: AffineConv, x: NDArray[Any], w: NDArray[Any], zero: int, shape: tuple[int, ...]) -> NDArray[Any]:
    return convolve(x, w, op.window, op.groups, op.pad_value - zero)


def convolve(x: NDArray[Any], w: NDArray[Any], window: Window, groups: int, pad_value: float) -> NDArray[Any]:
    """Convolution of [N, C, H, W] with [O, I/g, kh, kw] in the arrays' type: [N, O, OH, OW], without bias."""
    views = taps(padded(x, window, pad_value), window)
    count, channels, out_h, out_w = views.shape[:4]
    per_in, per_out = channels // groups, w.shape[0] // groups
    if per_in == 1:  # depthwise: one tap at a time, no copies of windows
        acc = np.zeros((count, w.shape[0], out_h, out_w), x.dtype)
        for ky in range(window.kernel_h):
            for kx in range(window.kernel_w):
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


def _transposed(op: AffineConv, x: NDArray[Any], w: NDArray[Any], zero: int, shape: tuple[int, ...]) -> NDArray[Any]:
    return convolve_transposed(x, w, op.window, op.groups, shape)


def convolve_transposed(
    x: NDArray[Any], w: NDArray[Any], window: Window, groups: int, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Transposed convolution of [N, C, H, W] with [I, O/g, kh, kw] to [N, *shape], without bias."""
    count, channels, height, width = x.shape
    per_in, per_out = channels // groups, w.shape[1]
    span_h = (height - 1) * window.stride_h + (window.kernel_h - 1) * window.dilation_h + 1
    span_w = (width - 1) * window.stride_w + (window.kernel_w - 1) * window.dilation_w + 1
    full_h, full_w = max(span_h, window.pad_top + shape[-2]), max(span_w, window.pad_left + shape[-1])
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
    rows = slice(window.pad_top, window.pad_top + shape[-2])
    return full[:, :, rows, window.pad_left : window.pad_left + shape[-1]]


def _pool(op: AffinePool, x: NDArray[Any], zero: int, output: AffineTensor) -> NDArray[Any]:
    if op.pool == "max":
        return np.asarray(taps(padded(x.astype(np.int64), op.window, -(1 << 40)), op.window).max(axis=(4, 5)))
    if op.requantize is None:
        raise UsageError("an average pool without requantisation", where=op.name)
    sums = taps(padded(_centred(x, zero), op.window, 0), op.window).sum(axis=(4, 5))
    if not op.by_count:
        return requantized(sums, op.requantize, output)
    ones = np.ones((1, 1, *x.shape[2:]), np.int64)
    counts = taps(padded(ones, op.window, 0), op.window).sum(axis=(4, 5))
    table = np.stack(op.by_count)  # [taps + 1, 2]: multiplier, shift
    multiplier, shift = table[counts, 0], table[counts, 1]
    value = rounded_product(sums, multiplier, shift)
    return np.asarray(np.clip(value + output.zero_point, op.requantize.clip_min, op.requantize.clip_max))


def _move(op: AffineMove, x: NDArray[Any], output: AffineTensor) -> NDArray[Any]:
    if op.move == "reshape":
        return x.reshape(len(x), *output.shape)
    if op.move == "upsample":
        return x.repeat(op.scale_hw[0], axis=2).repeat(op.scale_hw[1], axis=3)
    top, left, bottom, right = op.pads
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=op.pad_value)
