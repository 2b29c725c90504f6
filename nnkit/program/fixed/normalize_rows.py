"""Normalisation of the last axis: mean 0, variance 1, then a gain and an offset for each element of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.op import OpBase
from nnkit.program.row_arithmetic import normalized_rows
from nnkit.program.tensor import Array, Arrays, IntArray, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class NormalizeRows(OpBase):
    """z * gain + offset, shifted right with rounding and clamped; z as in `nnkit.program.row_arithmetic`.

    gain, offset: one for each element of a row; offset in units of z * gain.
    """

    kind: ClassVar[str] = "normalize_rows"
    epsilon: int
    gain: IntArray
    offset: IntArray
    shift: int
    clip_min: int
    clip_max: int

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """[..., n] -> [..., n]."""
        z = normalized_rows(inputs[0].astype(np.int64), self.epsilon)
        rounded = (z * self.gain + self.offset + (1 << (self.shift - 1))) >> self.shift
        return np.asarray(np.clip(rounded, self.clip_min, self.clip_max))
