"""Concatenation along the channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.fixed.output_stage import norm
from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Concat(OpBase):
    """Concatenation along the channels: each part v = clamp(NORM(x, shifts[i]), storage of the output).

    A part with shift 0 and the output's storage is bit-identical, so the planner may let its producer
    write in place.
    """

    kind: ClassVar[str] = "concat"
    shifts: tuple[int, ...]

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """[C1, H, W], [C2, H, W] ... -> [C1 + C2 ..., H, W]."""
        storage = tensors[self.output].fixed
        parts = [norm(x.astype(np.int64), shift) for x, shift in zip(inputs, self.shifts, strict=True)]
        return np.concatenate([np.clip(part, storage.qmin, storage.qmax) for part in parts])
