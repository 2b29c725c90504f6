"""Product of two computed matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.fixed.output_stage import OutputStage
from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class MatMul(OpBase):
    """[..., m, k] times [..., k, n], matrix by matrix: acc = sum of a * b over k; output stage."""

    kind: ClassVar[str] = "matmul"
    stage: OutputStage

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """[..., m, k], [..., k, n] -> [..., m, n]."""
        a, b = (x.astype(np.int64) for x in inputs)
        return self.stage.stored(a @ b, self, tensors[self.output].fixed, watch)

    def multiply_accumulates(self, tensors: Tensors) -> int:
        """One for each element of the result and each of a row."""
        return tensors[self.output].elements * tensors[self.inputs[0]].shape[-1]
