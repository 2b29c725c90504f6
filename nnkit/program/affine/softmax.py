"""Softmax in integers: exponentials from tables, sums and quotients exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.tensor import Array, Arrays, IntArray

_QUOTIENT_BITS = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class AffineSoftmax(AffineOpBase):
    """Along `axis` of the tensor, which has no batch:

    d_i = max x - x_i; e_i = (coarse[d_i >> 8] * fine[d_i & 255]) >> 31;
    y_i = clamp((e_i * numerator + (sum e << 7)) / (sum e << 8) + zero point), the quotient rounded down.

    coarse, fine: 2^31 exp(-256 k scale) and 2^31 exp(-k scale), [1] or [256] and [256]; numerator: 2^8 / scale of the
    output; `tables` makes them.
    """

    kind: ClassVar[str] = "softmax"
    axis: int
    coarse: IntArray
    fine: IntArray
    numerator: int

    @staticmethod
    def tables(source: AffineTensor, output: AffineTensor) -> tuple[IntArray, IntArray, int]:
        """(coarse, fine, numerator) for these formats."""
        steps = np.arange(1 << max(source.format.bits - 8, 0), dtype=np.float64)
        coarse = np.rint(2.0**31 * np.exp(-256.0 * source.scale * steps)).astype(np.int64)
        fine = np.rint(2.0**31 * np.exp(-source.scale * np.arange(256.0))).astype(np.int64)
        return coarse, fine, round(2.0**_QUOTIENT_BITS / output.scale)

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        x, axis = inputs[0].astype(np.int64), self.axis + 1
        below = x.max(axis=axis, keepdims=True) - x
        powers = (self.coarse[below >> 8] * self.fine[below & 255]) >> 31
        total = powers.sum(axis=axis, keepdims=True)
        quotient = (powers * self.numerator + (total << (_QUOTIENT_BITS - 1))) // (total << _QUOTIENT_BITS)
        return np.asarray(np.clip(quotient + output.zero_point, output.format.qmin, output.format.qmax))
