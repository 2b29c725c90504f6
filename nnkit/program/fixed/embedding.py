"""Rows of a table by their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, IntArray, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Embedding(OpBase):
    """y[..., :] = table[clamp(x[...], 0, rows - 1)], where x has no fraction.

    table: [rows, features], as the output is stored, in `table_bits` bits.
    """

    kind: ClassVar[str] = "embedding"
    table: IntArray
    table_bits: int

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """Any shape -> that shape and an axis of features."""
        return np.asarray(self.table[np.clip(inputs[0].astype(np.int64), 0, len(self.table) - 1)])

    def weight_bytes(self) -> int:
        """The table's."""
        return int(self.table.size) * self.table_bits // 8
