"""Stripes of rows, one below the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinRows(OpBase):
    """Tensors of one format, channels and width as one, the first on top.

    No layer of a network becomes this op: it ends layers that are computed in stripes of rows.
    """

    kind: ClassVar[str] = "join_rows"

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """[C, H1, W], [C, H2, W] ... -> [C, H1 + H2 ..., W]."""
        return np.concatenate(inputs, axis=1)
