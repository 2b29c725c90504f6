"""Softmax over one axis, by two tables of exponentials."""

from __future__ import annotations

from math import prod

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.operator import Function, OneCallC
from nnkit.c.fixed.rows import RowsFunction, array
from nnkit.c.fixed.types import ctype
from nnkit.program import Program, Softmax


class SoftmaxC(OneCallC[Softmax]):
    """`struct nnkit_rows`, and two tables of exponentials beside it."""

    def function(self, op: Softmax, program: Program) -> Function:
        x, y = (ctype(program.tensors[name].fixed) for name in (op.inputs[0], op.output))
        return RowsFunction("softmax", x, y)

    def constants(self, op: Softmax, program: Program, name: str) -> tuple[Constant, ...]:
        shape = program.tensors[op.output].shape
        size, step = shape[op.axis], prod(shape[op.axis + 1 :])
        return (
            array("nnkit_u16", f"{name}_coarse", op.coarse),
            array("nnkit_u16", f"{name}_fine", op.fine),
            Constant(
                "struct nnkit_rows",
                name,
                (
                    (f"{prod(shape) // size}, {size}, {step}", "rows, elements of a row, from one to the next"),
                    (f"{op.frac}", "bits of fraction of the output"),
                    (f"{op.clip_min}, {op.clip_max}", "low, high"),
                    (f"{name}_coarse, {name}_fine", "exponentials of every 256th and of 256 differences"),
                ),
            ),
        )
