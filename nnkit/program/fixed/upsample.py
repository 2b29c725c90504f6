"""Upsampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Upsample(OpBase):
    """Nearest-neighbour upsampling by whole factors: y[c, oy, ox] = x[c, oy // scale_h, ox // scale_w]."""

    kind: ClassVar[str] = "upsample"
    scale_h: int
    scale_w: int

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """[C, H, W] -> [C, H * scale_h, W * scale_w]."""
        return np.repeat(np.repeat(inputs[0], self.scale_h, axis=1), self.scale_w, axis=2)
