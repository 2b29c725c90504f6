"""Rows normalised to mean 0 and variance 1, with gains and offsets."""

from __future__ import annotations

from math import prod

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.operator import Function, OneCallC
from nnkit.c.fixed.rows import RowsFunction, array
from nnkit.c.fixed.types import ctype
from nnkit.program import NormalizeRows, Program


class NormalizeRowsC(OneCallC[NormalizeRows]):
    """`struct nnkit_normalize`, gains and offsets beside it."""

    def function(self, op: NormalizeRows, program: Program) -> Function:
        x, y = (ctype(program.tensors[name].fixed) for name in (op.inputs[0], op.output))
        return RowsFunction("normalize_rows", x, y)

    def constants(self, op: NormalizeRows, program: Program, name: str) -> tuple[Constant, ...]:
        rows, size = _rows(op, program)
        halves = [half & 0xFFFFFFFF for value in op.offset for half in (int(value) >> 32, int(value))]
        return (
            array("nnkit_i32", f"{name}_gain", op.gain),
            array("nnkit_u32", f"{name}_offset", halves, suffix="u"),
            Constant(
                "struct nnkit_normalize",
                name,
                (
                    (f"{rows}, {size}, {op.shift}", "rows, elements of a row, shift"),
                    (f"{op.clip_min}, {op.clip_max}", "low, high"),
                    (f"{op.epsilon >> 32}u, {op.epsilon & 0xFFFFFFFF}u", "epsilon: upper and lower 32 bits"),
                    (f"{name}_gain, {name}_offset", "gains; offsets, upper and lower 32 bits of each"),
                ),
            ),
        )


def _rows(op: NormalizeRows, program: Program) -> tuple[int, int]:
    shape = program.tensors[op.output].shape
    return prod(shape[:-1]), shape[-1]
