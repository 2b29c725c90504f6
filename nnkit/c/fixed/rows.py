"""What the ops on rows share: softmax, normalisation and the product of two matrices, each in a file of its name."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.operator import Declaration, Function, Source
from nnkit.c.fixed.types import CType

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


def array(kind: str, name: str, values: Iterable[int], suffix: str = "") -> Constant:
    """A constant array of integers. suffix: of every number in C."""
    numbers = [f"{int(value)}{suffix}" for value in values]
    lines = tuple((", ".join(numbers[i : i + _ROW]), f"from {i} on") for i in range(0, len(numbers), _ROW))
    return Constant(kind, f"{name}[]", lines)


def rows_source(functions: Collection[Function]) -> Source | None:
    """The file with all kernels of rows."""
    kernels = sorted((f for f in functions if isinstance(f, RowsFunction)), key=lambda kernel: kernel.name)
    structs = {"softmax": "nnkit_rows", "normalize_rows": "nnkit_normalize", "matmul": "nnkit_matmul"}
    declarations = tuple(Declaration(kernel.name, f"struct {structs[kernel.op]}: {kernel.op}") for kernel in kernels)
    return Source("rows", "rows.c.j2", {"kernels": kernels}, declarations) if kernels else None
