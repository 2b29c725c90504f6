"""An activation on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.fixed.output_stage import OutputStage
from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Activation(OpBase):
    """A clamp or a leaky slope that could not be fused: acc = x; output stage (shift may requantise)."""

    kind: ClassVar[str] = "activation"
    stage: OutputStage

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """The output stage alone, in the input's shape."""
        return self.stage.stored(inputs[0].astype(np.int64), self, tensors[self.output].fixed, watch)
