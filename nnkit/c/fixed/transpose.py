"""Axes in another order."""

from __future__ import annotations

from nnkit.c.fixed.gather import GatherC, element_steps
from nnkit.program import Program, Transpose


class TransposeC(GatherC[Transpose]):
    """Each output axis walks over the input's axis that it is."""

    def walk(self, op: Transpose, program: Program) -> tuple[int, tuple[int, ...]]:
        steps = element_steps(program.tensors[op.inputs[0]].shape)
        return 0, tuple(steps[axis] for axis in op.order)
