"""Axes in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Transpose(OpBase):
    """Axes in another order: axis i of the output is axis order[i] of the input, the batch not counted."""

    kind: ClassVar[str] = "transpose"
    order: tuple[int, ...]

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """Up to four axes -> the same axes in `order`."""
        return np.transpose(inputs[0], self.order)
