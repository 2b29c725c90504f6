"""RQ: accumulators to stored integers, with one rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnkit.program.affine.op import AffineTensor
from nnkit.program.tensor import IntArray

_HALF_BITS = 31  # of a product that needs more than 64
_BEYOND = 1 << 32  # any result of that size is clamped, whatever it is


@dataclass(frozen=True, eq=False)
class Requantize:
    """RQ and the clamp: `multiplier` and `shift` are [1] or [C] int64; bounds are stored integers of the output."""

    multiplier: IntArray
    shift: IntArray
    clip_min: int
    clip_max: int
    negative_multiplier: IntArray | None = None

    def stored(self, acc: IntArray, output: AffineTensor) -> IntArray:
        """RQ, zero point and clamp of accumulators [N, C, ...] (channels on axis 1)."""
        negative = self.negative_multiplier
        per_channel = self.multiplier.size > 1 or (negative is not None and negative.size > 1)
        shape = (1, -1) + (1,) * (acc.ndim - 2) if per_channel else (1,) * acc.ndim
        multiplier: IntArray = self.multiplier.reshape(shape)
        if negative is not None:
            multiplier = np.where(acc < 0, negative.reshape(shape), multiplier)
        return self.clamped(rounded_product(acc, multiplier, self.shift.reshape(shape)), output)

    def clamped(self, rounded: IntArray, output: AffineTensor) -> IntArray:
        """The zero point and the clamp of what RQ gave."""
        return np.asarray(np.clip(rounded + output.zero_point, self.clip_min, self.clip_max))


def rounded_product(acc: IntArray, multiplier: IntArray, shift: IntArray) -> IntArray:
    """RQ of the program's arithmetic: (acc * multiplier + 2^(shift-1)) >> shift, the product as wide as it gets.

    Exact, except that a result beyond 2^32 is some number beyond 2^31 of the same sign: every format clamps it.
    """
    half = np.int64(1) << (shift - 1)
    if max(int(acc.max(initial=0)), -int(acc.min(initial=0))) < 1 << _HALF_BITS:
        return np.asarray((acc * multiplier + half) >> shift)
    low_part = (acc & ((1 << _HALF_BITS) - 1)) * multiplier + half  # acc = high * 2^31 + low, 0 <= low < 2^31
    high = (acc >> _HALF_BITS) * multiplier + (low_part >> _HALF_BITS)
    down = np.maximum(shift - _HALF_BITS, 0)
    up = np.maximum(_HALF_BITS - shift, 0)
    rest = (low_part & ((1 << _HALF_BITS) - 1)) >> np.minimum(shift, _HALF_BITS)
    return np.asarray(np.where(up > 0, (np.clip(high, -_BEYOND, _BEYOND) << up) + rest, high >> down))
