"""Constant padding."""

from __future__ import annotations

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.move import MoveC, move_constant
from nnkit.c.fixed.types import chw
from nnkit.program import Pad, Program


class PadC(MoveC[Pad]):
    """A move with an offset and a value."""

    kind = "pad"

    def constants(self, op: Pad, program: Program, name: str) -> tuple[Constant, ...]:
        source, output = program.tensors[op.inputs[0]], program.tensors[op.output]
        value = op.value & ((1 << (8 * output.format.bytes)) - 1)
        return (move_constant(name, chw(source), chw(output), offset=(op.top, op.left), value=value),)
