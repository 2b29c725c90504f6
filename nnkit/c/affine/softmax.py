"""Softmax."""

from __future__ import annotations

import numpy as np

from nnkit.c.affine.call import Call, Kernel, Table, suffix
from nnkit.c.affine.rows import rows_around
from nnkit.program.affine import AffineSoftmax, AffineTensor


def softmax_call(op: AffineSoftmax, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call."""
    outer, inner = rows_around(source.shape, op.axis)
    return Call(
        Kernel("softmax", "softmax", (("x", suffix(source)), ("y", suffix(output)))),
        {
            "outer": outer,
            "inner": inner,
            "length": source.shape[op.axis],
            "numerator": op.numerator,
            "zero": output.zero_point,
            "low": output.format.qmin,
            "high": output.format.qmax,
        },
        op.inputs,
        op.output,
        {"tables": Table("ints", np.concatenate([op.fine, op.coarse]))},
        in_place=frozenset({0} if source.size_bytes == output.size_bytes else ()),
    )
