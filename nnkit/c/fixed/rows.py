"""What ops on rows share: softmax, its logarithm, normalisation, matrix products, tables, each in its own file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.operator import Declaration, Function, Source
from nnkit.c.fixed.types import CType
from nnkit.program.logarithm import LN2

Kind: TypeAlias = Literal["softmax", "log_softmax", "normalize_rows", "matmul", "embedding"]
_STRUCTS: Mapping[Kind, str] = MappingProxyType(
    {
        "softmax": "nnkit_rows",
        "log_softmax": "nnkit_log_rows",
        "normalize_rows": "nnkit_normalize",
        "matmul": "nnkit_matmul",
        "embedding": "nnkit_embedding",
    }
)
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
    if not kernels:
        return None
    declarations = tuple(Declaration(kernel.name, f"struct {_STRUCTS[kernel.op]}: {kernel.op}") for kernel in kernels)
    values = {"kernels": kernels, "ops": {kernel.op for kernel in kernels}, "ln2": LN2}
    return Source("rows", "rows.c.j2", values, declarations)
