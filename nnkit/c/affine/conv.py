"""Convolution, transposed convolution and matrix products."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.c.affine.call import Call, Kernel, Table, suffix
from nnkit.c.affine.overlap import window_distance
from nnkit.c.affine.requantize import stage_of
from nnkit.graph.refusal import Refused
from nnkit.program.affine import AffineConv, AffineTensor

COLUMNS = 4
_DEPTH = 4  # weights of an output channel, padded to a multiple


def conv_call(op: AffineConv, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call. Raises Refused for what there is no kernel for."""
    if op.transposed:
        raise Refused("transposed convolutions have no C of integers yet")
    window, weight = op.window, centred_weight(op)
    outputs, per_group = weight.shape[0], weight.shape[1]
    rows = weight.transpose(0, 2, 3, 1).reshape(outputs, -1)  # [O, kh kw I]
    depth = -(-rows.shape[1] // _DEPTH) * _DEPTH
    wide = op.accumulator == "int64" or not folds(op, weight, source)
    packed = np.zeros((outputs, depth), np.int64)
    packed[:, : rows.shape[1]] = rows
    start = started(op, weight, source)
    stage = stage_of(op.requantize, output, outputs, reach_of(weight, op, source), wide=wide)
    weight_type = "i8" if packed.min(initial=0) >= -128 and packed.max(initial=0) <= 127 else "i16"
    columns = [start, stage.multiplier, stage.shift, *([] if stage.negative is None else [stage.negative])]
    if wide and np.abs(start).max(initial=0) >= 1 << 31:
        raise Refused("its sums start beyond 32 bits")
    if suffix(source) == "u16":
        raise Refused("unsigned values of 16 bits are read by no kernel (set symmetric_activations)")
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
                ("form", stage.form),
                ("clamp", stage.clamp),
                ("lifted", "lifted" if stage.lift else ""),
                ("negative", "slopes" if stage.negative is not None else ""),
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
            "kernel_h": window.kernel_h,
            "kernel_w": window.kernel_w,
            "stride_h": window.stride_h,
            "stride_w": window.stride_w,
            "dilation_h": window.dilation_h,
            "dilation_w": window.dilation_w,
            "pad_top": window.pad_top,
            "pad_left": window.pad_left,
            "pad_value": op.pad_value,
            "depth": depth,
            **stage.numbers,
        },
        reads=op.inputs,
        write=op.output,
        tables={
            "weights": Table("bytes" if weight_type == "i8" else "shorts", packed),
            "stages": Table("ints", np.stack(columns, axis=1)),
        },
        scratch_bytes=COLUMNS * depth * 2,
        distance_bytes=window_distance(window, source, output, together=COLUMNS, reads_last=op.groups > 1),
        strided=True,
    )


def centred_weight(op: AffineConv) -> NDArray[np.int64]:
    """The weights without their zero points."""
    shape = [1] * op.weight.ndim
    if op.weight_format.axis is not None:
        shape[op.weight_format.axis] = -1
    zero = np.asarray(op.weight_format.zero_point, np.int64).reshape(shape)
    return op.weight.astype(np.int64) - zero


def started(op: AffineConv, weight: NDArray[np.int64], source: AffineTensor) -> NDArray[np.int64]:
    """What the sums of stored inputs start from, so that the zero point need not be taken off each input."""
    return np.asarray(op.bias.astype(np.int64) - source.zero_point * weight.reshape(len(weight), -1).sum(axis=1))


def folds(op: AffineConv, weight: NDArray[np.int64], source: AffineTensor) -> bool:
    """Whether no sum of stored inputs can leave 32 bits, in any order."""
    largest = max(abs(source.format.qmin), abs(source.format.qmax))
    sums = np.abs(weight).reshape(len(weight), -1).sum(axis=1) * largest + np.abs(started(op, weight, source))
    return int(sums.max(initial=0)) < 1 << 31


def reach_of(weight: NDArray[np.int64], op: AffineConv, source: AffineTensor) -> int:
    """The largest magnitude of a finished sum."""
    sums = np.abs(weight).reshape(len(weight), -1).sum(axis=1) * source.reach + np.abs(op.bias.astype(np.int64))
    return int(sums.max(initial=0))
