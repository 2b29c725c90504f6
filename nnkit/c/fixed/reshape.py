"""Another shape."""

from __future__ import annotations

from nnkit.c.fixed.layer import Call
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.move import copy_call, move_function
from nnkit.c.fixed.operator import Function, OperatorC
from nnkit.program import Program, Reshape


class ReshapeC(OperatorC[Reshape]):
    """A copy, of which nothing is left where input and output lie at one address."""

    def functions(self, op: Reshape, program: Program) -> tuple[Function, ...]:
        return (move_function("copy", program.tensors[op.output]),)

    def calls(self, op: Reshape, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        source = program.tensors[op.inputs[0]]
        return (copy_call(name, (1, 1, source.elements), source, part=0, out_channel=0),)
