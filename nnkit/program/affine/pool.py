"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from nnkit.errors import UsageError
from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.affine.requantize import Requantize, rounded_product
from nnkit.program.tensor import Array, Arrays, IntArray
from nnkit.program.window import Window, present_taps, window_maxima, window_sums


@dataclass(frozen=True, eq=False, kw_only=True)
class AffinePool(AffineOpBase):
    """Maximum (input's format; padding is absent), or average: acc = sum(x - zx) over the present taps; RQ.

    `by_count`: where padded taps do not count, the requantisation of a window of n present taps is by_count[n].
    """

    kind: ClassVar[str] = "pool"
    pool: Literal["max", "average"]
    window: Window
    requantize: Requantize | None = None
    by_count: tuple[IntArray, ...] = ()
    count_include_pad: bool = False

    def _values(self, inputs: Arrays, sources: Sequence[AffineTensor], output: AffineTensor) -> Array:
        (x,) = inputs
        if self.pool == "max":
            return window_maxima(x.astype(np.int64), self.window)
        if self.requantize is None:
            raise UsageError("an average pool without requantisation", where=self.name)
        sums = window_sums(sources[0].centred(x), self.window)
        if not self.by_count:
            return self.requantize.stored(sums, output)
        counts = present_taps(x.shape[-2], x.shape[-1], self.window)
        table = np.stack(self.by_count)  # [taps + 1, 2]: multiplier, shift
        rounded = rounded_product(sums, table[counts, 0], table[counts, 1])
        return self.requantize.clamped(rounded, output)
