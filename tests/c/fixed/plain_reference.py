"""Every op of a Program as plain loops over Python integers, written from the definitions in nnkit.program.fixed.

Independent of the simulator and of the generated C: the truth that kernel tests compare with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import (
    Activation,
    Add,
    Concat,
    Conv2d,
    ConvTranspose2d,
    Embedding,
    Fixed,
    JoinRows,
    LogSoftmax,
    Lookup,
    Mul,
    Op,
    OutputStage,
    Pad,
    Pool,
    Program,
    Reshape,
    Slice,
    Transpose,
    Upsample,
    Window,
)

Values = NDArray[np.int64]


def run(program: Program, inputs: Mapping[str, Values]) -> dict[str, Values]:
    """All tensors by name."""
    values = {name: np.asarray(inputs[name], dtype=np.int64) for name in program.inputs}
    for op in program.ops:
        out = np.zeros(program.tensors[op.output].shape, dtype=np.int64)
        _fill(op, [values[name] for name in op.inputs], out, program.tensors[op.output].fixed)
        values[op.output] = out
    return values


def norm(value: int, shift: int) -> int:
    return (value + (1 << (shift - 1))) >> shift if shift else value


def wrap32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def stage(acc: int, op_stage: OutputStage, channel: int, fixed: Fixed, accumulator: str) -> int:
    """NORM in the accumulator's width, saturation, then slope and clip."""
    rounded = acc + (1 << (op_stage.shift - 1) if op_stage.shift else 0)
    if accumulator != "int64":
        rounded = wrap32(rounded)
    return activate(clamp(rounded >> op_stage.shift, fixed.qmin, fixed.qmax), op_stage, channel, fixed)


def activate(value: int, op_stage: OutputStage, channel: int, fixed: Fixed) -> int:
    if op_stage.leaky is not None and value < 0:
        slopes = op_stage.leaky.slopes
        slope = int(slopes[channel if slopes.size > 1 else 0])
        value = clamp(norm(value * slope, op_stage.leaky.shift), fixed.qmin, fixed.qmax)
    return clamp(value, op_stage.clip_min, op_stage.clip_max)


def _fill(op: Op, x: list[Values], out: Values, fixed: Fixed) -> None:
    if isinstance(op, Conv2d):
        _conv(op, x[0], out, fixed)
    elif isinstance(op, ConvTranspose2d):
        _conv_transpose(op, x[0], out, fixed)
    elif isinstance(op, Pool):
        limits = (max(op.clip_min, fixed.qmin), min(op.clip_max, fixed.qmax))
        _pool(op.pool, op.window, x[0], out, (op.multiplier, op.shift), limits, op.multipliers_by_count)
    elif isinstance(op, Concat):
        channel = 0
        for part, shift in zip(x, op.shifts, strict=True):
            for index in np.ndindex(part.shape):
                value = clamp(norm(int(part[index]), shift), fixed.qmin, fixed.qmax)
                out[(channel + index[0], *index[1:])] = value
            channel += part.shape[0]
    elif isinstance(op, Reshape):
        out[...] = x[0].reshape(out.shape)
    elif isinstance(op, Lookup):
        step = 1 << op.step_bits
        for index in np.ndindex(out.shape):
            entry, inside = divmod(int(x[0][index]) - op.least, step)
            low = int(op.table[entry])
            rise = (int(op.table[entry + 1]) - low) * inside if inside else 0
            between = low + norm(rise, op.step_bits)
            out[index] = clamp(between, op.clip_min, op.clip_max) if op.step_bits else between
    elif isinstance(op, Transpose):
        for index in np.ndindex(x[0].shape):
            out[tuple(index[axis] for axis in op.order)] = x[0][index]
    elif isinstance(op, JoinRows):
        row = 0
        for part in x:
            for index in np.ndindex(part.shape):
                out[index[0], row + index[1], index[2]] = part[index]
            row += part.shape[1]
    elif isinstance(op, Slice):
        for index in np.ndindex(out.shape):
            cuts = zip(op.starts, index, op.steps, strict=True)
            out[index] = x[0][tuple(start + i * step for start, i, step in cuts)]
    elif isinstance(op, Embedding):
        for index in np.ndindex(x[0].shape):
            out[index] = op.table[clamp(int(x[0][index]), 0, len(op.table) - 1)]
    elif isinstance(op, LogSoftmax):
        _log_softmax(op, x[0], out)
    else:
        _elementwise(op, x, out, fixed)


def _log_softmax(op: LogSoftmax, x: Values, out: Values) -> None:
    for index in np.ndindex(x.shape):
        row = [int(x[(*index[: op.axis], other, *index[op.axis + 1 :])]) for other in range(x.shape[op.axis])]
        below = [max(row) - value for value in row]
        total = sum((int(op.coarse[d >> 8]) * int(op.fine[d & 255]) + 8192) >> 14 for d in below)
        power = total.bit_length() - 1
        mantissa = total << (31 - power)
        entry = (mantissa >> 23) % 256
        low, high = int(op.logarithms[entry]), int(op.logarithms[entry + 1])
        log = (power - 16) * 11629080 + low + ((high - low) * ((mantissa >> 8) % 32768) >> 15)
        value = (1 << (op.shift - 1)) - (below[index[op.axis]] << op.spread) - (log << op.widen)
        out[index] = clamp(value >> op.shift, op.clip_min, op.clip_max)


def _elementwise(op: Op, x: list[Values], out: Values, fixed: Fixed) -> None:
    for index in np.ndindex(out.shape):
        if isinstance(op, Add):
            acc = (int(x[0][index]) << op.shifts[0]) + (int(x[1][index]) << op.shifts[1])
            out[index] = stage(acc, op.stage, index[0], fixed, op.accumulator)
        elif isinstance(op, Mul):
            other = x[1][index] if x[1].shape == out.shape else x[1][index[0], 0, 0]
            out[index] = stage(int(x[0][index]) * int(other), op.stage, index[0], fixed, op.accumulator)
        elif isinstance(op, Activation):
            out[index] = stage(int(x[0][index]), op.stage, index[0], fixed, op.accumulator)
        elif isinstance(op, Upsample):
            out[index] = x[0][index[0], index[1] // op.scale_h, index[2] // op.scale_w]
        elif isinstance(op, Pad):
            y, column = index[1] - op.top, index[2] - op.left
            inside = 0 <= y < x[0].shape[1] and 0 <= column < x[0].shape[2]
            out[index] = x[0][index[0], y, column] if inside else op.value


def _conv(op: Conv2d, x: Values, out: Values, fixed: Fixed) -> None:
    window, shift = op.window, op.stage.shift
    out_h, out_w = window.output_hw(x.shape[1], x.shape[2])
    per_in, per_out = op.weight.shape[1], op.weight.shape[0] // op.groups
    full = np.zeros((op.weight.shape[0], out_h, out_w), dtype=np.int64)
    for o, oy, ox in np.ndindex(full.shape):
        first = o // per_out * per_in
        value = int(op.bias[o])
        acc = value << op.bias_shift
        for i in range(per_in):
            total = 0
            for ky in range(window.kernel_h):
                for kx in range(window.kernel_w):
                    y = oy * window.stride_h - window.pad_top + ky * window.dilation_h
                    column = ox * window.stride_w - window.pad_left + kx * window.dilation_w
                    inside = 0 <= y < x.shape[1] and 0 <= column < x.shape[2]
                    total += int(op.weight[o, i, ky, kx]) * (int(x[first + i, y, column]) if inside else op.pad_value)
            acc += total
            rounding = 1 << (shift - 1) if shift else 0
            value = clamp(wrap32((value << shift) + total + rounding) >> shift, fixed.qmin, fixed.qmax)
        if op.accumulate == "running":
            full[o, oy, ox] = activate(value, op.stage, o, fixed)
        else:
            full[o, oy, ox] = stage(acc, op.stage, o, fixed, op.accumulator)
    if op.pool is None:
        out[...] = full
    else:
        scale = (op.pool.multiplier, op.pool.shift)
        _pool(op.pool.kind, op.pool.window, full, out, scale, (fixed.qmin, fixed.qmax), ())


def _conv_transpose(op: ConvTranspose2d, x: Values, out: Values, fixed: Fixed) -> None:
    window = op.window
    per_in, per_out = x.shape[0] // op.groups, op.weight.shape[1]
    acc: dict[tuple[int, int, int], int] = {}
    for i, iy, ix in np.ndindex(x.shape):
        for o, ky, kx in np.ndindex(*op.weight.shape[1:]):
            oy = iy * window.stride_h - window.pad_top + ky * window.dilation_h
            ox = ix * window.stride_w - window.pad_left + kx * window.dilation_w
            key = (i // per_in * per_out + o, oy, ox)
            acc[key] = acc.get(key, 0) + int(x[i, iy, ix]) * int(op.weight[i, o, ky, kx])
    for index in np.ndindex(out.shape):
        total = (int(op.bias[index[0]]) << op.bias_shift) + acc.get(index, 0)  # type: ignore[call-overload]
        out[index] = stage(total, op.stage, index[0], fixed, op.accumulator)


def _pool(
    kind: str,
    window: Window,
    x: Values,
    out: Values,
    scale: tuple[int, int],
    limits: tuple[int, int],
    by_count: tuple[int, ...],
) -> None:
    for c, oy, ox in np.ndindex(out.shape):
        present: list[Any] = []
        for ky in range(window.kernel_h):
            for kx in range(window.kernel_w):
                y = oy * window.stride_h - window.pad_top + ky * window.dilation_h
                column = ox * window.stride_w - window.pad_left + kx * window.dilation_w
                if 0 <= y < x.shape[1] and 0 <= column < x.shape[2]:
                    present.append(int(x[c, y, column]))
        if kind == "max":
            value = max(present)
        else:
            multiplier = by_count[len(present)] if by_count else scale[0]
            value = norm(sum(present) * multiplier, scale[1])
        out[c, oy, ox] = clamp(value, *limits)
