"""Element-wise product."""

from __future__ import annotations

from nnkit.c.fixed.elementwise import ElementwiseC
from nnkit.program import Mul, Program


class MulC(ElementwiseC[Mul]):
    """The second input may have one element per channel."""

    kind = "mul"

    def per_channel(self, op: Mul, program: Program) -> bool:
        """Whether it is smaller than the output."""
        return program.tensors[op.inputs[1]].elements != program.tensors[op.output].elements
