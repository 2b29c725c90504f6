"""The logarithm of a softmax along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.logarithm import logarithms
from nnkit.program.op import OpBase
from nnkit.program.tensor import Array, Arrays, IntArray, Tensors
from nnkit.program.watch import Watch


@dataclass(frozen=True, eq=False, kw_only=True)
class LogSoftmax(OpBase):
    """x_i - max x - ln(sum of exp(x_j - max x)) along `axis`, the exponentials as those of `Softmax`.

    d_i = max x - x_i; e_i = (coarse[d_i >> 8] * fine[d_i & 255] + 2^13) >> 14, in 16 bits of fraction; s = sum e, at
    least 2^16 and below 2^32. With k = floor(log2 s), m = s << (31 - k), i = (m >> 23) & 255, r = (m >> 8) & 32767:
    l = (k - 16) * ln2 + logarithms[i] + (((logarithms[i + 1] - logarithms[i]) * r) >> 15), which is ln of the sum in
    24 bits of fraction; y_i = clamp((2^(shift - 1) - (d_i << spread) - (l << widen)) >> shift, clip_min, clip_max).

    coarse, fine: of `Softmax.tables`. logarithms: 2^24 ln(1 + i / 256), [257], see
    `nnkit.program.logarithm`. spread, widen: bits that bring the input's units and those of l to one fraction; shift:
    bits from there to the output's, at least 1.
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

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """Any shape -> that shape."""
        x = inputs[0].astype(np.int64)
        below = x.max(axis=self.axis, keepdims=True) - x
        e = (self.coarse[below >> 8] * self.fine[below & 255] + (1 << 13)) >> 14
        total = logarithms(e.sum(axis=self.axis, keepdims=True), 16, self.logarithms)
        value = ((1 << (self.shift - 1)) - (below << self.spread) - (total << self.widen)) >> self.shift
        return np.asarray(np.clip(value, self.clip_min, self.clip_max))
