"""A part of a tensor."""

from __future__ import annotations

from nnkit.c.fixed.gather import GatherC, element_steps
from nnkit.program import Program, Slice


class SliceC(GatherC[Slice]):
    """Each axis begins at its start and walks by its step."""

    def walk(self, op: Slice, program: Program) -> tuple[int, tuple[int, ...]]:
        steps = element_steps(program.tensors[op.inputs[0]].shape)
        first = sum(start * step for start, step in zip(op.starts, steps, strict=True))
        return first, tuple(by * step for by, step in zip(op.steps, steps, strict=True))
