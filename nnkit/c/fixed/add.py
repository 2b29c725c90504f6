"""Element-wise sum."""

from __future__ import annotations

from nnkit.c.fixed.elementwise import ElementwiseC
from nnkit.program import Add


class AddC(ElementwiseC[Add]):
    """The inputs are shifted to one fraction."""

    kind = "add"

    def shifts(self, op: Add) -> tuple[int, int]:
        return op.shifts
