"""Rows of a table by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.op import Proof
from nnkit.program.tensor import Array, Arrays


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineEmbedding(AffineOpBase):
    """y = table[min(x, rows - 1)], where x are indices: its format has the scale 1 and no zero point.

    table: [rows, features], as the output is stored.
    """

    kind: ClassVar[str] = "embedding"
    table: Array
    proof: Proof = "not_applicable"

    def weight_bytes(self) -> int:
        """The table's."""
        return int(self.table.nbytes)

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        return np.asarray(self.table[np.minimum(inputs[0], len(self.table) - 1)])
