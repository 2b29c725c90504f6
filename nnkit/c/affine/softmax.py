"""Softmax."""

from __future__ import annotations

import numpy as np

from nnkit.c.affine.call import Call, Kernel, Table, suffix
from nnkit.graph.refusal import Refused
from nnkit.program.affine import AffineSoftmax, AffineTensor


def softmax_call(op: AffineSoftmax, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call. Raises Refused for an axis whose elements do not lie side by side."""
    if op.axis != (0 if len(source.shape) == 3 else len(source.shape) - 1):
        raise Refused("it goes over an axis whose elements do not lie side by side")
    length = source.shape[op.axis]
    return Call(
        Kernel("softmax", "softmax", (("x", suffix(source)), ("y", suffix(output)))),
        {
            "rows": source.elements // length,
            "length": length,
            "numerator": op.numerator,
            "zero": output.zero_point,
            "low": output.format.qmin,
            "high": output.format.qmax,
        },
        op.inputs,
        op.output,
        {"tables": Table("ints", np.concatenate([op.fine, op.coarse]))},
    )
