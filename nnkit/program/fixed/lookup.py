"""A function of every element, from a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.fixed.output_stage import norm
from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, IntArray, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Lookup(OpBase):
    """A function from a table of stored outputs, between whose entries lie 2^step_bits inputs.

    With u = x - least (the least integer of the input's storage), i = u >> step_bits and f = u mod 2^step_bits:
    y = table[i] for step_bits = 0 (one entry for each of 256 inputs), else
    y = clamp(table[i] + NORM((table[i + 1] - table[i]) * f, step_bits), clip_min, clip_max), with one entry more than
    there are steps.
    """

    kind: ClassVar[str] = "lookup"
    table: IntArray
    least: int
    step_bits: int
    clip_min: int
    clip_max: int

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """Any shape -> that shape."""
        above = inputs[0].astype(np.int64) - self.least
        index, table = above >> self.step_bits, self.table.astype(np.int64)
        if self.step_bits == 0:
            return np.asarray(table[index])
        fraction = above & ((1 << self.step_bits) - 1)
        between = table[index] + norm((table[index + 1] - table[index]) * fraction, self.step_bits)
        return np.asarray(np.clip(between, self.clip_min, self.clip_max))
