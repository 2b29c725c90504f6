"""What bounds the sums of a convolution, as data with which anybody can check again that they do not overflow.

An output channel's sum lies between `positive * low + negative * high + start` and
`positive * high + negative * low + start + rounding`, low..high being the integers that an input can hold, `positive`
and `negative` the sums of its weights above and below 0, `start` its bias (`nnkit.quantize.proof`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Conv2d, ConvTranspose2d, OpBase, Program, Tensor
from nnkit.program.affine import AffineConv, AffineTensor
from nnkit.quantize.affine.accumulators import output_rows


def accumulator_sums(op: OpBase, program: Program) -> dict[str, Any] | None:
    """The record of the report: of the channel whose sums reach highest, and of the one whose reach lowest.

    None for ops without weights of their own, and for those that round after every input channel.
    """
    source = program.tensors[op.inputs[0]] if op.inputs else None
    if isinstance(op, AffineConv) and isinstance(source, AffineTensor):
        rows = output_rows(op.weight, op.weight_zero_points(), op.groups, transposed=op.transposed)
        low, high = (end - source.zero_point for end in (source.format.qmin, source.format.qmax))
        return _record(rows, op.bias.astype(np.int64), (low, high), 0)
    if isinstance(op, Conv2d | ConvTranspose2d) and isinstance(source, Tensor) and op.accumulator != "running16":
        transposed = isinstance(op, ConvTranspose2d)
        rows = output_rows(op.weight, np.zeros((), np.int64), op.groups, transposed=transposed)
        pad = op.pad_value if isinstance(op, Conv2d) else 0
        ends = min(source.low, pad), max(source.high, pad)
        rounding = 1 << (op.stage.shift - 1) if op.stage.shift else 0
        return _record(rows, op.bias.astype(np.int64) << op.bias_shift, ends, rounding)
    return None


def _record(
    rows: NDArray[np.int64], start: NDArray[np.int64], ends: tuple[int, int], rounding: int
) -> dict[str, Any]:
    low, high = min(ends[0], 0), max(ends[1], 0)
    positive = np.where(rows > 0, rows, 0).sum(axis=1)
    negative = np.where(rows < 0, rows, 0).sum(axis=1)
    highest = int(np.argmax(positive * high + negative * low + start))
    lowest = int(np.argmin(positive * low + negative * high + start))
    channels = [
        {"channel": at, "positive": int(positive[at]), "negative": int(negative[at]), "start": int(start[at])}
        for at in dict.fromkeys((highest, lowest))
    ]
    return {"low": low, "high": high, "rounding": rounding, "channels": channels}
