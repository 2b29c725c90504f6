"""Max and average pooling, alone and fused behind a convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.program.fixed.output_stage import norm
from nnkit.program.formats import Fixed
from nnkit.program.op import OpBase, PoolKind
from nnkit.program.tensor import Array, Arrays, IntArray, Tensors
from nnkit.program.watch import Watch
from nnkit.program.window import Window, present_taps, window_maxima, window_sums


@dataclass(frozen=True)
class FusedPool:
    """A pooling that reads the convolution's output rows and is all that is stored.

    kind "max": padding never wins (it is absent). kind "average": see `Pool`.
    """

    kind: PoolKind
    window: Window
    multiplier: int = 1
    shift: int = 0

    def compute(self, values: IntArray, storage: Fixed) -> IntArray:
        """The convolution's stored [O, H, W] -> [O, OH, OW]."""
        if self.kind == "max":
            return window_maxima(values, self.window)
        sums = norm(window_sums(values, self.window) * self.multiplier, self.shift)
        return np.asarray(np.clip(sums, storage.qmin, storage.qmax))


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool(OpBase):
    """Pooling. max: padding is absent. average: v = NORM(sum * multiplier, shift) in int64, then clamp + clip.

    `multiplier` stands for 2^shift/taps. With `count_include_pad` false and padding, `multipliers_by_count[n]`
    gives the multiplier for a window of n present taps (index 0 unused).
    """

    kind: ClassVar[str] = "pool"
    pool: PoolKind
    window: Window
    multiplier: int = 1
    shift: int = 0
    multipliers_by_count: tuple[int, ...] = ()
    clip_min: int
    clip_max: int

    def compute(self, inputs: Arrays, tensors: Tensors, watch: Watch | None = None) -> Array:
        """[C, H, W] -> [C, OH, OW]."""
        x, storage = inputs[0].astype(np.int64), tensors[self.output].fixed
        if self.pool == "max":
            values = window_maxima(x, self.window)
        else:
            multiplier: IntArray | int = self.multiplier
            if self.multipliers_by_count:
                counts = present_taps(x.shape[-2], x.shape[-1], self.window)
                multiplier = np.asarray(self.multipliers_by_count, np.int64)[counts]
            values = norm(window_sums(x, self.window) * multiplier, self.shift)
        return np.asarray(np.clip(np.clip(values, storage.qmin, storage.qmax), self.clip_min, self.clip_max))
