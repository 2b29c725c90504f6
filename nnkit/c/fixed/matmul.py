"""The product of two matrices that are both computed."""

from __future__ import annotations

from math import prod

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.operator import Function, OneCallC
from nnkit.c.fixed.rows import RowsFunction
from nnkit.c.fixed.types import ctype
from nnkit.program import MatMul, Program


class MatMulC(OneCallC[MatMul]):
    """`struct nnkit_matmul`."""

    def function(self, op: MatMul, program: Program) -> Function:
        a, b, y = (ctype(program.tensors[name].fixed) for name in (*op.inputs, op.output))
        return RowsFunction("matmul", a, y, b, 64 if op.accumulator == "int64" else 32)

    def constants(self, op: MatMul, program: Program, name: str) -> tuple[Constant, ...]:
        a, out = program.tensors[op.inputs[0]], program.tensors[op.output]
        rounding = 1 << (op.stage.shift - 1) if op.stage.shift else 0
        low, high = max(op.stage.clip_min, out.fixed.qmin), min(op.stage.clip_max, out.fixed.qmax)
        return (
            Constant(
                "struct nnkit_matmul",
                name,
                (
                    (f"{prod(out.shape[:-2])}, {out.shape[-2]}", "matrices, rows"),
                    (f"{a.shape[-1]}, {out.shape[-1]}", "elements of a row of the first, columns"),
                    (f"{op.stage.shift}, {rounding}", "shift, rounding"),
                    (f"{low}, {high}", "low, high"),
                ),
            ),
        )
