"""Stripes of rows put together: a call for every stripe."""

from __future__ import annotations

from nnkit.c.fixed.layer import Call
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.move import move_constant, move_function
from nnkit.c.fixed.operator import Function, OperatorC
from nnkit.c.fixed.types import chw
from nnkit.program import JoinRows, Program


class JoinRowsC(OperatorC[JoinRows]):
    """A move of every stripe to its rows."""

    def functions(self, op: JoinRows, program: Program) -> tuple[Function, ...]:
        """The one kernel."""
        return (move_function("rows", program.tensors[op.output]),)

    def calls(self, op: JoinRows, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        """One call per stripe."""
        output = program.tensors[op.output]
        calls, top = [], 0
        for index, part in enumerate(op.inputs):
            source, layer = chw(program.tensors[part]), f"{name}_part{index}"
            constant = move_constant(layer, source, chw(output), offset=(top, 0))
            calls.append(Call(move_function("rows", output).name, layer, (index,), (constant,)))
            top += source[1]
        return tuple(calls)
