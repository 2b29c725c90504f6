"""A function from a table."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.operator import Declaration, Function, OneCallC, Source
from nnkit.c.fixed.types import CType, ctype
from nnkit.program import Lookup, Program

_ROW = 16
"""Entries of a table in a line."""


@dataclass(frozen=True, order=True)
class LookupFunction(Function):
    """The kernel for an input and an output type. steps: whether it interpolates between entries."""

    x: CType
    y: CType
    steps: bool

    @property
    def name(self) -> str:
        return f"lookup_{self.x.tag}_{self.y.tag}{'_steps' if self.steps else ''}"


class LookupC(OneCallC[Lookup]):
    """`struct nnkit_lookup`, and the table as an array beside it."""

    def function(self, op: Lookup, program: Program) -> Function:
        x, y = (ctype(program.tensors[name].fixed) for name in (op.inputs[0], op.output))
        return LookupFunction(x, y, op.step_bits > 0)

    def constants(self, op: Lookup, program: Program, name: str) -> tuple[Constant, ...]:
        output = program.tensors[op.output]
        entries = [str(int(entry)) for entry in op.table]
        rows = tuple(
            (", ".join(entries[row : row + _ROW]), f"from {op.least + (row << op.step_bits)} on")
            for row in range(0, len(entries), _ROW)
        )
        lines = (
            (f"{output.elements}", "elements"),
            (f"{op.least}", "least input"),
            (f"{op.step_bits}, {1 << op.step_bits >> 1}", "bits of a step, rounding"),
            (f"{op.clip_min}, {op.clip_max}", "low, high between entries"),
            (f"{name}_table", "outputs"),
        )
        return (
            Constant(ctype(output.fixed).c, f"{name}_table[]", rows),
            Constant("struct nnkit_lookup", name, lines),
        )


def lookup_source(functions: Collection[Function]) -> Source | None:
    """The file with all kernels that look values up."""
    kernels = sorted({function for function in functions if isinstance(function, LookupFunction)})
    declarations = tuple(
        Declaration(kernel.name, "struct nnkit_lookup: a function from a table") for kernel in kernels
    )
    return Source("lookup", "lookup.c.j2", {"lookups": kernels}, declarations) if kernels else None
