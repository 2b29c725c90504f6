"""Softmax along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, IntArray, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class Softmax(OpBase):
    """Along `axis`, by tables of exponentials of differences to the largest element.

    d_i = max x - x_i; e_i = (coarse[d_i >> 8] * fine[d_i & 255] + 2^13) >> 14, which is exp(-d_i) in 16 bits of
    fraction, off by at most 2.5 units; y_i = clamp(floor((e_i * 2^frac + (sum e >> 1)) / sum e), clip_min, clip_max).

    coarse, fine: 2^15 exp(-256 k 2^-frac of the input) and 2^15 exp(-k 2^-frac), [1] or [256] and [256]; frac: of the
    output. `tables` makes them.
    """

    kind: ClassVar[str] = "softmax"
    axis: int
    coarse: IntArray
    fine: IntArray
    frac: int
    clip_min: int
    clip_max: int

    @staticmethod
    def tables(bits: int, frac: int) -> tuple[IntArray, IntArray]:
        """(coarse, fine) for an input of these bits, and bits of fraction."""
        coarse = 256 * np.arange(1 << max(bits - 8, 0))
        return _exponentials(coarse * 2.0**-frac), _exponentials(np.arange(256) * 2.0**-frac)

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """Any shape -> that shape."""
        x = inputs[0].astype(np.int64)
        below = x.max(axis=self.axis, keepdims=True) - x
        e = (self.coarse[below >> 8] * self.fine[below & 255] + (1 << 13)) >> 14
        total = e.sum(axis=self.axis, keepdims=True)
        return np.asarray(np.clip(((e << self.frac) + (total >> 1)) // total, self.clip_min, self.clip_max))


def _exponentials(x: NDArray[np.floating[Any]]) -> IntArray:
    return np.asarray(np.rint(2.0**15 * np.exp(-x)), np.int64)
