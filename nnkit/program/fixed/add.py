"""Element-wise sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.fixed.output_stage import OutputStage
from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Add(OpBase):
    """Element-wise sum of two tensors of one shape: acc = (a << shifts[0]) + (b << shifts[1]); output stage."""

    kind: ClassVar[str] = "add"
    shifts: tuple[int, int]
    stage: OutputStage

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """Two of one shape -> that shape."""
        a, b = (x.astype(np.int64) << shift for x, shift in zip(inputs, self.shifts, strict=True))
        return self.stage.stored(a + b, self, tensors[self.output].fixed, watch)
