"""Depthwise convolution: one input channel, one output channel."""

from __future__ import annotations

import numpy as np

from nnkit.c.affine.call import Call, Kernel, Table, suffix, window_numbers
from nnkit.c.affine.conv import centred_weight, folds, reach_of, stage_columns, started
from nnkit.c.affine.overlap import window_accesses
from nnkit.c.affine.requantize import stage_of
from nnkit.program.affine import AffineConv, AffineTensor

MOST_TAPS = 49
"""The most taps of a window: the C keeps the place of each on the stack. Larger ones run as grouped convolutions."""
_TOGETHER = 16  # channels whose weights lie together


def is_depthwise(op: AffineConv) -> bool:
    """Whether each output channel has an input channel of its own, and the window is small enough."""
    own = not op.transposed and op.groups > 1 and op.weight.shape[:2] == (op.groups, 1)
    return own and op.window.kernel_h * op.window.kernel_w <= MOST_TAPS


def depthwise_call(op: AffineConv, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call."""
    window, weight = op.window, centred_weight(op)
    channels = len(weight)
    taps = weight.reshape(channels, -1)
    padded = np.zeros((-(-channels // _TOGETHER) * _TOGETHER, taps.shape[1]), np.int64)
    padded[:channels] = taps
    packed = padded.reshape(-1, _TOGETHER, taps.shape[1]).swapaxes(1, 2)
    wide = op.accumulator == "int64" or not folds(op, weight, source)
    stage = stage_of(op.requantize, output, channels, reach_of(weight, op, source), wide=wide)
    weight_type = "i8" if taps.min(initial=0) >= -128 and taps.max(initial=0) <= 127 else "i16"
    columns = stage_columns(started(op, weight, source.zero_point), stage, wide=wide)
    _, height, width = source.shape
    return Call(
        kernel=Kernel(
            "depthwise",
            "depthwise",
            (
                ("x", suffix(source)),
                ("w", weight_type),
                ("y", suffix(output)),
                ("sum", "s64" if wide else ""),
                *stage.variant,
            ),
        ),
        numbers={
            "height": height,
            "width": width,
            "channels": channels,
            "out_height": output.shape[1],
            "out_width": output.shape[2],
            "y_stride": channels,
            **window_numbers(window),
            "pad_value": op.pad_value,
            **stage.numbers,
        },
        reads=op.inputs,
        write=op.output,
        tables={
            "weights": Table("bytes" if weight_type == "i8" else "shorts", packed),
            "stages": Table("ints", np.stack(columns, axis=1)),
        },
        scratch_bytes=channels * source.format.bytes,
        accesses=window_accesses(window, source, output, reads_last=True),
        strided=True,
    )
