"""Convolution, transposed convolution and matrix products."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.c.affine.call import Call, Kernel, Table, suffix, window_numbers
from nnkit.c.affine.overlap import window_accesses
from nnkit.c.affine.requantize import Stage, stage_of
from nnkit.program import Window
from nnkit.program.affine import AffineConv, AffineTensor

COLUMNS = 4
_DEPTH = 4  # weights of an output channel, padded to a multiple


def conv_call(op: AffineConv, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call."""
    window, weight = op.window, centred_weight(op)
    outputs, per_group = weight.shape[0], weight.shape[1]
    rows = weight.transpose(0, 2, 3, 1).reshape(outputs, -1)  # [O, kh kw I]
    depth = -(-rows.shape[1] // _DEPTH) * _DEPTH
    lowered = 1 << 15 if suffix(source) == "u16" else 0
    wide = op.accumulator == "int64" or not folds(op, weight, source, lowered)
    packed = np.zeros((outputs, depth), np.int64)
    packed[:, : rows.shape[1]] = rows
    start = started(op, weight, source.zero_point - lowered)
    stage = stage_of(op.requantize, output, outputs, reach_of(weight, op, source), wide=wide)
    weight_type = "i8" if packed.min(initial=0) >= -128 and packed.max(initial=0) <= 127 else "i16"
    columns = stage_columns(start, stage, wide=wide)
    _, height, width = source.shape
    return Call(
        kernel=Kernel(
            "conv",
            "conv",
            (
                ("x", suffix(source)),
                ("w", weight_type),
                ("y", suffix(output)),
                ("sum", "s64" if wide else ""),
                *stage.variant,
                ("way", "transposed" if op.transposed else ""),
            ),
        ),
        numbers={
            "height": height,
            "width": width,
            "channels": per_group,
            "x_stride": source.shape[0],
            "out_height": output.shape[1],
            "out_width": output.shape[2],
            "out_channels": outputs // op.groups,
            "y_stride": output.shape[0],
            "groups": op.groups,
            **window_numbers(window),
            "pad_value": source.zero_point if op.transposed else op.pad_value,
            "depth": depth,
            "whole": int(window.dilation_w == 1 and per_group == source.shape[0]),
            "even": int(rows.shape[1] == depth and window.kernel_w * per_group % 4 == 0 and window.dilation_h == 1),
            "pointwise": int(not op.transposed and op.groups == 1 and _is_pointwise(window, per_group)),
            **stage.numbers,
        },
        reads=op.inputs,
        write=op.output,
        tables={
            "weights": Table("bytes" if weight_type == "i8" else "shorts", packed),
            "stages": Table("ints", np.stack(columns, axis=1)),
        },
        scratch_bytes=COLUMNS * depth * 2 + depth * source.format.bytes,
        accesses=None
        if op.transposed
        else window_accesses(window, source, output, together=COLUMNS, reads_last=op.groups > 1),
        strided=True,
    )


def _is_pointwise(window: Window, channels: int) -> bool:
    """Whether each pixel by itself is a column."""
    shape = window.kernel_h, window.kernel_w, window.stride_h, window.stride_w
    return shape == (1, 1, 1, 1) and not window.has_padding and channels % _DEPTH == 0


def stage_columns(start: NDArray[np.int64], stage: Stage, *, wide: bool) -> list[NDArray[np.int64]]:
    """What a kernel reads for each output channel; where sums have 64 bits the upper half of their start is last."""
    columns = [start & 0xFFFFFFFF, stage.multiplier, stage.shift]
    columns += [] if stage.negative is None else [stage.negative]
    return [*columns, start >> 32] if wide else columns


def centred_weight(op: AffineConv) -> NDArray[np.int64]:
    """The weights without their zero points, [O, I / groups, kh, kw]."""
    shape = [1] * op.weight.ndim
    if op.weight_format.axis is not None:
        shape[op.weight_format.axis] = -1
    zero = np.asarray(op.weight_format.zero_point, np.int64).reshape(shape)
    weight: NDArray[np.int64] = op.weight.astype(np.int64) - zero
    if not op.transposed:
        return weight
    grouped = weight.reshape(op.groups, -1, *weight.shape[1:])  # [g, I / g, O / g, kh, kw]
    return np.asarray(grouped.swapaxes(1, 2).reshape(-1, grouped.shape[1], *weight.shape[2:]))


def started(op: AffineConv, weight: NDArray[np.int64], zero: int) -> NDArray[np.int64]:
    """What the sums of stored inputs start from, so that the zero point need not be taken off each input."""
    return np.asarray(op.bias.astype(np.int64) - zero * weight.reshape(len(weight), -1).sum(axis=1))


def folds(op: AffineConv, weight: NDArray[np.int64], source: AffineTensor, lowered: int = 0) -> bool:
    """Whether no sum of stored inputs, `lowered` by so much, can leave 32 bits, in any order."""
    largest = max(abs(source.format.qmin - lowered), abs(source.format.qmax - lowered))
    start = started(op, weight, source.zero_point - lowered)
    sums = np.abs(weight).reshape(len(weight), -1).sum(axis=1) * largest + np.abs(start)
    return int(sums.max(initial=0)) < 1 << 31


def reach_of(weight: NDArray[np.int64], op: AffineConv, source: AffineTensor) -> int:
    """The largest magnitude of a finished sum."""
    sums = np.abs(weight).reshape(len(weight), -1).sum(axis=1) * source.reach + np.abs(op.bias.astype(np.int64))
    return int(sums.max(initial=0))
