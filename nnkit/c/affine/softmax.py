"""Softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nnkit.c.affine.call import Call, Kernel, Table, suffix
from nnkit.c.affine.rows import rows_around
from nnkit.program.affine import AffineLogSoftmax, AffineSoftmax, AffineTensor
from nnkit.program.tensor import IntArray


def softmax_call(op: AffineSoftmax, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call."""
    return _call("softmax", op, source, output, {"numerator": op.numerator}, [op.fine, op.coarse])


def log_softmax_call(op: AffineLogSoftmax, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call."""
    names = ("difference", "logarithm", "extra", "shift")
    numbers = {name: getattr(op, name) for name in names}
    return _call("log_softmax", op, source, output, numbers, [op.fine, op.coarse, op.logarithms])


def _call(
    structure: str,
    op: AffineSoftmax | AffineLogSoftmax,
    source: AffineTensor,
    output: AffineTensor,
    numbers: Mapping[str, int],
    tables: Sequence[IntArray],
) -> Call:
    outer, inner = rows_around(source.shape, op.axis)
    ends = {"zero": output.zero_point, "low": output.format.qmin, "high": output.format.qmax}
    return Call(
        Kernel("softmax", structure, (("x", suffix(source)), ("y", suffix(output)))),
        {"outer": outer, "inner": inner, "length": source.shape[op.axis], **numbers, **ends},
        op.inputs,
        op.output,
        {"tables": Table("ints", np.concatenate(tables))},
        in_place=frozenset({0} if source.size_bytes == output.size_bytes else ()),
    )
