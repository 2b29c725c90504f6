"""Nearest-neighbour upsampling."""

from __future__ import annotations

from nnkit.c.fixed.layer import Constant
from nnkit.c.fixed.move import MoveC, move_constant
from nnkit.c.fixed.types import chw
from nnkit.program import Program, Upsample


class UpsampleC(MoveC[Upsample]):
    """A move with a scale."""

    kind = "upsample"

    def constants(self, op: Upsample, program: Program, name: str) -> tuple[Constant, ...]:
        source, output = program.tensors[op.inputs[0]], program.tensors[op.output]
        return (move_constant(name, chw(source), chw(output), scale=(op.scale_h, op.scale_w)),)
