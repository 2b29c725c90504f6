"""Element-wise product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.fixed.output_stage import OutputStage
from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Mul(OpBase):
    """Element-wise product; the second input has the first's shape or is [C, 1, 1]: acc = a * b; output stage."""

    kind: ClassVar[str] = "mul"
    stage: OutputStage

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """[C, H, W] and its like or [C, 1, 1] -> [C, H, W]."""
        a, b = (x.astype(np.int64) for x in inputs)
        return self.stage.stored(a * b, self, tensors[self.output].fixed, watch)
