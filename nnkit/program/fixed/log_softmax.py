"""The logarithm of a softmax along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, IntArray, Tensors
from nnkit.program.watch import Watch

LOGARITHM_BITS = 24
"""Bits of fraction of `logarithms`."""
LN2 = round(np.log(2.0) * 2**LOGARITHM_BITS)
"""ln 2 with these."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LogSoftmax(OpBase):
    """x_i - max x - ln(sum of exp(x_j - max x)) along `axis`, the exponentials as those of `Softmax`.

    d_i = max x - x_i; e_i = (coarse[d_i >> 8] * fine[d_i & 255] + 2^13) >> 14, in 16 bits of fraction; s = sum e, at
    least 2^16 and below 2^32. With k = floor(log2 s), m = s << (31 - k), i = (m >> 23) & 255, r = (m >> 8) & 32767:
    l = (k - 16) * ln2 + logarithms[i] + (((logarithms[i + 1] - logarithms[i]) * r) >> 15), which is ln of the sum in
    24 bits of fraction; y_i = clamp((2^(shift - 1) - (d_i << spread) - (l << widen)) >> shift, clip_min, clip_max).

    coarse, fine: of `Softmax.tables`. logarithms: 2^24 ln(1 + i / 256), [257]. spread, widen: bits that bring the
    input's units and those of l to one fraction; shift: bits from there to the output's, at least 1.
    """

    kind: ClassVar[str] = "log_softmax"
    axis: int
    coarse: IntArray
    fine: IntArray
    logarithms: IntArray
    spread: int
    widen: int
    shift: int
    clip_min: int
    clip_max: int

    @staticmethod
    def table() -> IntArray:
        """`logarithms`."""
        return np.asarray(np.rint(np.log1p(np.arange(257) / 256) * 2.0**LOGARITHM_BITS), np.int64)

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """Any shape -> that shape."""
        x = inputs[0].astype(np.int64)
        below = x.max(axis=self.axis, keepdims=True) - x
        e = (self.coarse[below >> 8] * self.fine[below & 255] + (1 << 13)) >> 14
        total = self._logarithm(e.sum(axis=self.axis, keepdims=True))
        value = ((1 << (self.shift - 1)) - (below << self.spread) - (total << self.widen)) >> self.shift
        return np.asarray(np.clip(value, self.clip_min, self.clip_max))

    def _logarithm(self, total: IntArray) -> IntArray:
        power = np.frexp(total.astype(np.float64))[1] - 1  # floor(log2), exact: below 2^53
        mantissa = total << (31 - power)
        index, rest = (mantissa >> 23) & 255, (mantissa >> 8) & 32767
        low, high = self.logarithms[index], self.logarithms[index + 1]
        return np.asarray((power - 16) * LN2 + low + (((high - low) * rest) >> 15), np.int64)
