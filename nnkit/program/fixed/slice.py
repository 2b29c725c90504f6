"""A part of a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.op import OpBase
from nnkit.program.sliced import sliced
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Slice(OpBase):
    """Elements of every axis: y[i, j, ...] = x[starts[0] + i * steps[0], starts[1] + j * steps[1], ...].

    The output's shape says how many; a step may be negative.
    """

    kind: ClassVar[str] = "slice"
    starts: tuple[int, ...]
    steps: tuple[int, ...]

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """Up to four axes -> as many, none of them longer."""
        return np.asarray(sliced(inputs[0][np.newaxis], self.starts, self.steps, tensors[self.output].shape)[0])
