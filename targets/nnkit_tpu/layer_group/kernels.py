"""Integer arithmetic of the ops for the executor: the proof of a plan needs the data flow, not the chip's rounding.

Each op is computed from the rows that are really in local memory. What an op reads is worked out here on its own,
from the op's definition: a row that lies in the tensor but not in the slice raises `MissingRowsError`; one outside
the tensor is padding. Weights are taken as the bytes that lie in local memory: every byte of them changes the
result.

The results are deterministic integers of the output's width, scaled to keep the spread of the values from layer to
layer, so that a single wrong value anywhere shows in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError
from nnkit.program.ops import Window
from nnkit_tpu.layer_group.backward import Span
from nnkit_tpu.layer_group.model import GroupOp, Shape

Integers: TypeAlias = NDArray[np.int64]
_DTYPES = {1: "i1", 2: "i2", 4: "i4"}


class MissingRowsError(Exception):
    """An op reads rows of its input that its slice does not hold."""


@dataclass(frozen=True, eq=False)
class Rows:
    """values [n, c, rows, w]: rows first .. first + rows of a tensor of `height` rows."""

    values: NDArray[Any]
    first: int
    height: int

    def take(self, start: int, stop: int, fill: int = 0) -> Integers:
        """Rows start .. stop; those outside the tensor are `fill`. Raises MissingRowsError for others not held."""
        held = Span(self.first, self.first + self.values.shape[2])
        low, high = min(max(start, 0), self.height), max(min(stop, self.height), 0)
        if low < high and not held.covers(Span(low, high)):
            raise MissingRowsError(f"rows [{low}, {high}) are read, [{held.start}, {held.stop}) are there")
        inside = self.values[:, :, low - self.first : max(high, low) - self.first].astype(np.int64)
        before, after = max(min(0, stop) - start, 0), max(stop - max(self.height, start), 0)
        pads = ((0, 0), (0, 0), (before, after), (0, 0))
        return np.pad(inside, pads, constant_values=fill)


def stored_dtype(dtype_bytes: int) -> np.dtype[Any]:
    """The integer type that stands for values of this many bytes."""
    return np.dtype(_DTYPES[dtype_bytes])


def compute(
    op: GroupOp,
    sources: Sequence[Rows],
    weights: Sequence[NDArray[Any]],
    rows: Span,
    result: Shape,
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    """`rows` of the op's output, of the whole shape `result` but for the batch, which is the sources'.

    Raises:
        MissingRowsError: the sources do not hold what the op reads.
    """
    values = _compute(op, sources, weights, rows, result)
    limits = np.iinfo(dtype)
    return np.clip(values, limits.min, limits.max).astype(dtype)


def _compute(
    op: GroupOp, sources: Sequence[Rows], weights: Sequence[NDArray[Any]], rows: Span, result: Shape
) -> Integers:
    first = sources[0]
    match op.kind:
        case "conv":
            return _convolution(op, first, weights, rows, result)
        case "deconv":
            return _deconvolution(op, first, weights, rows, result)
        case "max_pool" | "average_pool":
            return _pool(op, first, rows, result)
        case "binary":
            return _binary(op, sources, weights, rows)
        case "unary":
            values = first.take(rows.start, rows.stop)
            return ((values * 29) >> 5) + (_checksum(weights) & 7)
        case "scale":
            values = first.take(rows.start, rows.stop)
            factor = np.resize(_flat(weights), (1, values.shape[1], 1, 1))
            return ((values * factor) >> 6) + values
        case "concat":
            return _concat(op, sources, rows)
        case "upsample":
            scale_h, scale_w = int(op.scale[0]), int(op.scale[1])
            base = rows.start // scale_h
            values = first.take(base, (rows.stop - 1) // scale_h + 1).repeat(scale_h, 2).repeat(scale_w, 3)
            return np.asarray(values[:, :, rows.start - base * scale_h :][:, :, : rows.length])
        case "interp":
            return _interpolation(op, first, rows, result)
        case "pad":
            begin_h, begin_w = op.begins
            values = first.take(rows.start - begin_h, rows.stop - begin_h)
            after_w = result[3] - values.shape[3] - begin_w
            return np.pad(values, ((0, 0), (0, 0), (0, 0), (begin_w, after_w)))
        case "slice":
            (c, h, w), (step_c, step_h, step_w) = op.begins, op.steps
            values = first.take(h + rows.start * step_h, h + (rows.stop - 1) * step_h + 1)[
                :, c::step_c, ::step_h, w::step_w
            ]
            return values[:, : result[1], :, : result[3]]
        case "softmax":
            if op.axis == 2:
                values = _everything(first)
                return np.asarray(values - values.max(2, keepdims=True))[:, :, rows.start : rows.stop]
            values = first.take(rows.start, rows.stop)
            return np.asarray(values - values.max(op.axis, keepdims=True) + (values.sum(op.axis, keepdims=True) >> 8))
        case _:
            return _whole(op, sources, weights, result)


def _everything(source: Rows) -> Integers:
    """All rows of a source: for ops that cannot be cut along h."""
    return source.take(0, source.height)


def _flat(weights: Sequence[NDArray[Any]]) -> Integers:
    if not weights:
        return np.ones(1, np.int64)
    return np.concatenate([np.ascontiguousarray(w).reshape(-1).view(np.int8) for w in weights]).astype(np.int64)


def _checksum(weights: Sequence[NDArray[Any]]) -> int:
    return int((_flat(weights) * (np.arange(_flat(weights).size) % 13 + 1)).sum()) if weights else 0


def _scaled(accumulators: Integers, fan_in: int, weights: Sequence[NDArray[Any]]) -> Integers:
    """Accumulators of `fan_in` products with int8 weights, brought back to the inputs' spread."""
    shift = max(round(log2(64 * max(fan_in, 1) ** 0.5)), 0)
    return (accumulators + ((_checksum(weights) & 63) << max(shift - 4, 0))) >> shift


def _window(op: GroupOp) -> Window:
    if op.window is None:
        raise InternalError("a windowed op has no window", where=op.name)
    return op.window


def _taps(op: GroupOp, source: Rows, rows: Span, result: Shape, fill: int) -> list[Integers]:
    """The window's taps, row by row of the kernel: [n, c, output rows, output width] each."""
    window = _window(op)
    start = rows.start * window.stride_h - window.pad_top
    stop = (rows.stop - 1) * window.stride_h - window.pad_top + (window.kernel_h - 1) * window.dilation_h + 1
    values = source.take(start, stop, fill)
    need_w = (result[3] - 1) * window.stride_w + (window.kernel_w - 1) * window.dilation_w + 1
    right = max(need_w - window.pad_left - values.shape[3], 0)
    values = np.pad(values, ((0, 0), (0, 0), (0, 0), (window.pad_left, right)), constant_values=fill)
    taps = []
    for i in range(window.kernel_h):
        for j in range(window.kernel_w):
            top, left = i * window.dilation_h, j * window.dilation_w
            bottom = top + (rows.length - 1) * window.stride_h + 1
            edge = left + (result[3] - 1) * window.stride_w + 1
            taps.append(values[:, :, top : bottom : window.stride_h, left : edge : window.stride_w])
    return taps


def _convolution(op: GroupOp, source: Rows, weights: Sequence[NDArray[Any]], rows: Span, result: Shape) -> Integers:
    taps = _taps(op, source, rows, result, 0)
    images, channels = taps[0].shape[:2]
    per_group, outputs = channels // op.group, result[1] // op.group
    fan_in = per_group * len(taps)
    filters = np.resize(_flat(weights), (op.group, outputs, fan_in))
    if per_group == 1 and outputs == 1:  # depthwise
        total = sum(tap * filters[:, 0, k].reshape(1, -1, 1, 1) for k, tap in enumerate(taps))
        return _scaled(np.asarray(total), fan_in, weights)
    # [n, taps, group, channels of the group, pixels]; float64 products are exact below 2^53.
    stacked = np.stack(taps, 1).reshape(images, len(taps), op.group, per_group, -1).astype(np.float64)
    columns = stacked.transpose(0, 2, 1, 3, 4).reshape(images, op.group, fan_in, -1)
    total = (filters.astype(np.float64)[None] @ columns).astype(np.int64)
    return _scaled(total.reshape(images, result[1], rows.length, result[3]), fan_in, weights)


def _deconvolution(op: GroupOp, source: Rows, weights: Sequence[NDArray[Any]], rows: Span, result: Shape) -> Integers:
    """Output row y sums input rows i with y = i * stride - pad + k * dilation."""
    window = _window(op)
    reach = (window.kernel_h - 1) * window.dilation_h
    start = -((reach - rows.start - window.pad_top) // window.stride_h)
    stop = (rows.stop - 1 + window.pad_top) // window.stride_h + 1
    values = source.take(start, stop)
    images, channels = values.shape[:2]
    per_group, outputs = channels // op.group, result[1] // op.group
    filters = np.resize(_flat(weights), (window.kernel_h, window.kernel_w, op.group, outputs, per_group))
    reach_w = (window.kernel_w - 1) * window.dilation_w
    width = (values.shape[3] - 1) * window.stride_w + reach_w + 1
    canvas = np.zeros((images, result[1], (stop - start - 1) * window.stride_h + reach + 1, width), np.int64)
    grouped = values.reshape(images, op.group, per_group, -1).astype(np.float64)
    for i in range(window.kernel_h):
        for j in range(window.kernel_w):
            product = (filters[i, j].astype(np.float64)[None] @ grouped).astype(np.int64)
            product = product.reshape(images, result[1], *values.shape[2:])
            top, left = i * window.dilation_h, j * window.dilation_w
            bottom = top + (values.shape[2] - 1) * window.stride_h + 1
            edge = left + (values.shape[3] - 1) * window.stride_w + 1
            canvas[:, :, top : bottom : window.stride_h, left : edge : window.stride_w] += product
    top = rows.start + window.pad_top - start * window.stride_h
    total = canvas[:, :, top : top + rows.length, window.pad_left : window.pad_left + result[3]]
    lacking = (rows.length - total.shape[2], result[3] - total.shape[3])  # output padding
    total = np.pad(total, ((0, 0), (0, 0), (0, lacking[0]), (0, lacking[1])))
    return _scaled(total, per_group * window.kernel_h * window.kernel_w, weights)


def _pool(op: GroupOp, source: Rows, rows: Span, result: Shape) -> Integers:
    if op.kind == "max_pool":
        lowest = int(np.iinfo(source.values.dtype).min)
        return np.asarray(np.max(np.stack(_taps(op, source, rows, result, lowest)), axis=0))
    taps = _taps(op, source, rows, result, 0)
    return np.asarray(sum(taps)) // len(taps)


def _binary(op: GroupOp, sources: Sequence[Rows], weights: Sequence[NDArray[Any]], rows: Span) -> Integers:
    operands = [
        source.take(0, 1) if source.height == 1 and rows.stop > 1 else source.take(rows.start, rows.stop)
        for source in sources
    ]
    if weights:
        operands.append(np.resize(_flat(weights), (1, operands[0].shape[1], 1, 1)))
    first, *others = operands
    for other in others or [first]:
        match op.function:
            case "mul" | "div":
                first = (first * other) >> 6
            case "sub":
                first = (first - other) >> 1
            case "max":
                first = np.maximum(first, other)
            case "min":
                first = np.minimum(first, other)
            case _:
                first = (first * 3 + other * 5) >> 3
    return first


def _concat(op: GroupOp, sources: Sequence[Rows], rows: Span) -> Integers:
    if op.axis == 2:
        return np.concatenate([_everything(source) for source in sources], 2)[:, :, rows.start : rows.stop]
    return np.concatenate([source.take(rows.start, rows.stop) for source in sources], op.axis)


def _interpolation(op: GroupOp, source: Rows, rows: Span, result: Shape) -> Integers:
    """Linear in 1/256 steps, or nearest, in both directions."""
    method, _, coordinates = op.function.partition(" ")

    def positions(length: int, outputs: range, count: int) -> Integers:
        index = np.asarray(outputs, np.float64)
        if coordinates == "align_corners":
            at = index * (length - 1) / max(count - 1, 1)
        elif coordinates in ("half_pixel", "pytorch_half_pixel"):
            at = (index + 0.5) * length / count - 0.5
        else:
            at = index * length / count
        return np.floor(np.clip(at, 0, length - 1) * 256).astype(np.int64)

    vertical = positions(source.height, range(rows.start, rows.stop), result[2])
    horizontal = positions(source.values.shape[3], range(result[3]), result[3])
    start, last = int(vertical.min()) >> 8, int(vertical.max()) >> 8
    if method != "linear":
        values = source.take(start, last + 1)
        return values[:, :, (vertical >> 8) - start][:, :, :, horizontal >> 8]
    values = source.take(start, min(last + 2, source.height))
    low = (vertical >> 8) - start
    high = np.minimum(low + 1, values.shape[2] - 1)
    part = (vertical & 255).reshape(1, 1, -1, 1)
    values = values[:, :, low] * (256 - part) + values[:, :, high] * part
    left = horizontal >> 8
    right = np.minimum(left + 1, values.shape[3] - 1)
    across = (horizontal & 255).reshape(1, 1, 1, -1)
    return (values[..., left] * (256 - across) + values[..., right] * across) >> 16


def _whole(op: GroupOp, sources: Sequence[Rows], weights: Sequence[NDArray[Any]], result: Shape) -> Integers:
    """Ops that need all rows: reshape, permute, matrix product, reduction, and what has no kind of its own."""
    values = _everything(sources[0])
    images = values.shape[0]
    shape = (images * result[0] // max(result[0], 1), *result[1:])
    match op.kind:
        case "reshape":
            return values.reshape(-1, *result[1:])
        case "permute":
            return values.transpose(op.order).reshape(-1, *result[1:]) if op.order else values
        case "reduce":
            return np.asarray(values.sum(op.axis, keepdims=True) // values.shape[op.axis]).reshape(-1, *result[1:])
        case "matmul":
            flat = values.reshape(images, -1)
            filters = np.resize(_flat(weights), (flat.shape[1], int(np.prod(shape[1:])))).astype(np.float64)
            total = (flat.astype(np.float64) @ filters).astype(np.int64)
            for source in sources[1:]:
                total = total + np.resize(_everything(source).reshape(-1), total.shape)
            return _scaled(total, flat.shape[1], weights).reshape(images, *result[1:])
        case _:
            total = np.resize(values.reshape(-1), shape)
            for source in sources[1:]:
                total = total + np.resize(_everything(source).reshape(-1), shape)
            return total + (_checksum(weights) & 7) + (int(values.sum()) & 7)
