"""Padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Pad(OpBase):
    """Constant padding of H and W with `value` (an integer in the tensor's format)."""

    kind: ClassVar[str] = "pad"
    top: int
    left: int
    bottom: int
    right: int
    value: int

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """[C, H, W] -> [C, top + H + bottom, left + W + right]."""
        pads = ((0, 0), (self.top, self.bottom), (self.left, self.right))
        return np.pad(inputs[0].astype(np.int64), pads, constant_values=self.value)
