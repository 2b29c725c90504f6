"""Concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.affine.requantize import Requantize
from nnkit.program.tensor import Array, Arrays


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineConcat(AffineOpBase):
    """Along the channels; each part: acc = x - zx, its own RQ (a part in the output's format is copied).

    rows: one below the other instead, [C, H, W] of one C and W.
    """

    kind: ClassVar[str] = "concat"
    requantize: tuple[Requantize | None, ...]
    rows: bool = False

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        parts = [
            x if requantize is None else requantize.stored(tensor.centred(x), output)
            for x, tensor, requantize in zip(inputs, sources, self.requantize, strict=True)
        ]
        return np.concatenate(parts, axis=2 if self.rows else 1)
