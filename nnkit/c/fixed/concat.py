"""Concatenation: a call for every part that is not written in place. It has no template of its own."""

from __future__ import annotations

from nnkit.c.fixed.elementwise import requantize_constant, requantize_function
from nnkit.c.fixed.layer import Call
from nnkit.c.fixed.machine import CoreMachine
from nnkit.c.fixed.move import copy_call, move_function
from nnkit.c.fixed.operator import Function, OperatorC
from nnkit.c.fixed.types import chw, same_storage
from nnkit.program import Concat, Program


class ConcatC(OperatorC[Concat]):
    """Parts of the output's format are copied, others requantised."""

    def functions(self, op: Concat, program: Program) -> tuple[Function, ...]:
        """The kernels of all parts, also of those that turn out to be in place."""
        target = program.tensors[op.output].fixed
        return tuple(
            move_function("copy", program.tensors[part])
            if _is_copied(op, index, program)
            else requantize_function(program.tensors[part].fixed, target)
            for index, part in enumerate(op.inputs)
        )

    def calls(self, op: Concat, program: Program, machine: CoreMachine, name: str) -> tuple[Call, ...]:
        """One call per part."""
        target = program.tensors[op.output].fixed
        calls = []
        out_channel = 0
        for index, part in enumerate(op.inputs):
            source, layer = program.tensors[part], f"{name}_part{index}"
            if _is_copied(op, index, program):
                calls.append(copy_call(layer, chw(source), source, index, out_channel))
            else:
                function = requantize_function(source.fixed, target)
                constant = requantize_constant(layer, chw(source), op.shifts[index], target)
                calls.append(Call(function.name, layer, (index,), (constant,), out_channel))
            out_channel += chw(source)[0]
        return tuple(calls)


def _is_copied(op: Concat, index: int, program: Program) -> bool:
    source, target = program.tensors[op.inputs[index]].fixed, program.tensors[op.output].fixed
    return op.shifts[index] == 0 and same_storage(source, target)
