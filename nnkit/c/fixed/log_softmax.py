"""The logarithm of a softmax over one axis, by tables of exponentials and of logarithms."""

from __future__ import annotations

from math import prod

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.operator import Function, OneCallC
from nnkit.c.fixed.rows import RowsFunction, array
from nnkit.c.fixed.types import ctype
from nnkit.program import LogSoftmax, Program


class LogSoftmaxC(OneCallC[LogSoftmax]):
    """`struct nnkit_log_rows`, and three tables beside it."""

    def function(self, op: LogSoftmax, program: Program) -> Function:
        x, y = (ctype(program.tensors[name].fixed) for name in (op.inputs[0], op.output))
        return RowsFunction("log_softmax", x, y)

    def constants(self, op: LogSoftmax, program: Program, name: str) -> tuple[Constant, ...]:
        shape = program.tensors[op.output].shape
        size, step = shape[op.axis], prod(shape[op.axis + 1 :])
        return (
            array("nnkit_u16", f"{name}_coarse", op.coarse),
            array("nnkit_u16", f"{name}_fine", op.fine),
            array("nnkit_i32", f"{name}_logarithms", op.logarithms),
            Constant(
                "struct nnkit_log_rows",
                name,
                (
                    (f"{prod(shape) // size}, {size}, {step}", "rows, elements of a row, from one to the next"),
                    (f"{op.spread}, {op.widen}, {op.shift}", "bits: of differences, of logarithms, to the output"),
                    (f"{op.clip_min}, {op.clip_max}", "low, high"),
                    (f"{name}_coarse, {name}_fine", "exponentials of every 256th and of 256 differences"),
                    (f"{name}_logarithms", "of 1 to 2 in steps of 1/256"),
                ),
            ),
        )
