"""BackwardN and BackwardH: which images and rows of its inputs an op needs for given images and rows of its output.

Spans are half open, [start, stop). Rows that an op would read outside its input are padding and are not counted.
None means that the op cannot be cut along that axis at all.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nnkit.errors import InternalError
from nnkit.program import Window
from nnkit_tpu.layer_group.model import GroupOp, Shape


class Span(NamedTuple):
    """Rows, or images, from `start` up to but not including `stop`."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of rows or images."""
        return self.stop - self.start

    def hull(self, other: Span) -> Span:
        """The least span that holds both."""
        return Span(min(self.start, other.start), max(self.stop, other.stop))


def backward_n(op: GroupOp, images: Span, source: Shape, result: Shape) -> Span | None:
    """Images of the input of shape `source` for `images` of the output; None where batches cannot be told apart."""
    whole_batch = Span(0, source[0])
    if images == Span(0, result[0]):
        return whole_batch
    if source[0] == 1 and result[0] > 1:
        return whole_batch  # broadcast
    if source[0] != result[0]:
        return None
    if op.kind == "permute" and (not op.order or op.order[0] != 0):
        return None
    if op.kind in ("concat", "softmax", "reduce") and op.axis == 0:
        return None
    if op.kind in ("matmul", "other"):
        return None
    return images


def backward_h(op: GroupOp, rows: Span, source: Shape, result: Shape) -> Span | None:
    """Rows of the input of shape `source` for `rows` of the output of shape `result`, halo included.

    Whole outputs need whole inputs of every op. None where the op mixes all rows: a reshape that moves them, a matrix
    product, a softmax or a concatenation along h.
    """
    height = source[2]
    if rows == Span(0, result[2]):
        return Span(0, height)
    match op.kind:
        case "conv" | "max_pool" | "average_pool":
            return _clamped(*_windowed(_window(op), rows), height)
        case "deconv":
            return _clamped(*_transposed(_window(op), rows), height)
        case "binary" | "unary" | "scale":
            return Span(0, 1) if height == 1 else rows if height == result[2] else None
        case "concat" | "softmax" | "reduce":
            return None if op.axis == 2 or height != result[2] else rows
        case "upsample":
            factor = int(op.scale[0])
            return _clamped(rows.start // factor, (rows.stop - 1) // factor + 1, height)
        case "interp":
            return _interpolated(op, rows, height, result[2])
        case "pad":
            begin = op.begins[0] if op.begins else 0
            return (
                _clamped(rows.start - begin, rows.stop - begin, height) if op.function in ("", "constant") else None
            )
        case "slice":
            begin, step = (op.begins[1], op.steps[1]) if op.begins else (0, 1)
            return _clamped(begin + rows.start * step, begin + (rows.stop - 1) * step + 1, height)
        case "reshape":
            return rows if source[2:] == result[2:] else None
        case "permute":
            return rows if len(op.order) > 2 and op.order[2] == 2 else None
        case _:
            return None


def _windowed(window: Window, rows: Span) -> tuple[int, int]:
    reach = (window.kernel_h - 1) * window.dilation_h
    first = rows.start * window.stride_h - window.pad_top
    return first, (rows.stop - 1) * window.stride_h - window.pad_top + reach + 1


def _transposed(window: Window, rows: Span) -> tuple[int, int]:
    """Output row y is hit by input rows (y + pad - k * dilation) / stride, k = 0 .. kernel - 1."""
    reach = (window.kernel_h - 1) * window.dilation_h
    first = -((reach - rows.start - window.pad_top) // window.stride_h)
    return first, (rows.stop - 1 + window.pad_top) // window.stride_h + 1


def _interpolated(op: GroupOp, rows: Span, height: int, result_height: int) -> Span | None:
    """Rows between which the pixels of `rows` are interpolated; `function` is "<method> <coordinates>"."""
    method, _, coordinates = op.function.partition(" ")

    def position(row: int) -> float:
        if coordinates == "align_corners":
            return row * (height - 1) / (result_height - 1) if result_height > 1 else 0.0
        if coordinates in ("half_pixel", "pytorch_half_pixel"):
            return (row + 0.5) * height / result_height - 0.5
        return row * height / result_height

    first, last = position(rows.start), position(rows.stop - 1)
    if method == "linear":
        return _clamped(math.floor(first), math.floor(last) + 2, height)
    # A nearest neighbour may round either way.
    return _clamped(math.floor(first), math.ceil(last) + 1, height)


def _clamped(start: int, stop: int, height: int) -> Span:
    """The part of [start, stop) that lies in the input; at least one row, so that every slice has data to address."""
    low = min(max(start, 0), height - 1)
    return Span(low, max(min(stop, height), low + 1))


def _window(op: GroupOp) -> Window:
    if op.window is None:
        raise InternalError("a windowed op has no window", where=op.name)
    return op.window
