"""What works on rows: softmax, normalisation, the product of two matrices."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.operator import Declaration, Function, OneCallC, Source
from nnkit.c.fixed.types import CType, ctype
from nnkit.program import MatMul, NormalizeRows, Program, Softmax

Kind: TypeAlias = Literal["softmax", "normalize_rows", "matmul"]
_ROW = 12
"""Numbers of an array in a line."""


@dataclass(frozen=True, order=True)
class RowsFunction(Function):
    """The kernel for input and output types. b: a second input's; acc: bits of the sums of products."""

    op: Kind
    x: CType
    y: CType
    b: CType | None = None
    acc: int = 64

    @property
    def name(self) -> str:
        types = [self.x.tag, *([self.b.tag] if self.b else []), self.y.tag]
        return f"{self.op}_{'_'.join(types)}{'_acc64' if self.b and self.acc == 64 else ''}"


class SoftmaxC(OneCallC[Softmax]):
    """`struct nnkit_rows`, and two tables of exponentials beside it."""

    def function(self, op: Softmax, program: Program) -> Function:
        x, y = (ctype(program.tensors[name].fixed) for name in (op.inputs[0], op.output))
        return RowsFunction("softmax", x, y)

    def constants(self, op: Softmax, program: Program, name: str) -> tuple[Constant, ...]:
        shape = program.tensors[op.output].shape
        size, step = shape[op.axis], prod(shape[op.axis + 1 :])
        return (
            _array("nnkit_u16", f"{name}_coarse", op.coarse),
            _array("nnkit_u16", f"{name}_fine", op.fine),
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


class NormalizeRowsC(OneCallC[NormalizeRows]):
    """`struct nnkit_normalize`, gains and offsets beside it."""

    def function(self, op: NormalizeRows, program: Program) -> Function:
        x, y = (ctype(program.tensors[name].fixed) for name in (op.inputs[0], op.output))
        return RowsFunction("normalize_rows", x, y)

    def constants(self, op: NormalizeRows, program: Program, name: str) -> tuple[Constant, ...]:
        rows, size = _rows(op, program)
        halves = [half & 0xFFFFFFFF for value in op.offset for half in (int(value) >> 32, int(value))]
        return (
            _array("nnkit_i32", f"{name}_gain", op.gain),
            _array("nnkit_u32", f"{name}_offset", halves, suffix="u"),
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


def _rows(op: NormalizeRows, program: Program) -> tuple[int, int]:
    shape = program.tensors[op.output].shape
    return prod(shape[:-1]), shape[-1]


def _array(kind: str, name: str, values: Iterable[int], suffix: str = "") -> Constant:
    numbers = [f"{int(value)}{suffix}" for value in values]
    lines = tuple((", ".join(numbers[i : i + _ROW]), f"from {i} on") for i in range(0, len(numbers), _ROW))
    return Constant(kind, f"{name}[]", lines)


def rows_source(functions: Collection[Function]) -> Source | None:
    """The file with all kernels of rows."""
    kernels = sorted((f for f in functions if isinstance(f, RowsFunction)), key=lambda kernel: kernel.name)
    structs = {"softmax": "nnkit_rows", "normalize_rows": "nnkit_normalize", "matmul": "nnkit_matmul"}
    declarations = tuple(Declaration(kernel.name, f"struct {structs[kernel.op]}: {kernel.op}") for kernel in kernels)
    return Source("rows", "rows.c.j2", {"kernels": kernels}, declarations) if kernels else None
