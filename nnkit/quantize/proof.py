"""Proofs that a 32-bit accumulator cannot overflow, from the integer weights and the input's enforced range.

wide, per output channel (sign-split): with x in [lo, hi] (0 and the padding value included),
    sum_{w>0} w*hi + sum_{w<0} w*lo + (bias << bias_shift) + 2^(shift-1) <= 2^31 - 1, and the mirror image >= -2^31.
Because 0 is in the range every partial sum, in any order, lies within the same bounds.

running, per input channel: (2^(bits-1) << shift) + sum_kernel |w| * max|x| + 2^(shift-1) <= 2^31 - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

INT32_MAX = (1 << 31) - 1


@dataclass(frozen=True)
class Bound:
    """Largest and smallest accumulator value that can occur, rounding constant included."""

    low: int
    high: int

    @property
    def fits_int32(self) -> bool:
        """Whether a 32-bit accumulator holds every value."""
        return self.low >= -(1 << 31) and self.high <= INT32_MAX

    @property
    def excess_bits(self) -> float:
        """By how many bits the bound misses 32-bit (0 when it fits)."""
        worst = max(self.high, -self.low - 1, 1)
        return max(0.0, float(np.log2(worst) - 31.0))


def wide_bound(weight: NDArray[Any], bias: NDArray[Any], low: int, high: int, bias_shift: int, shift: int) -> Bound:
    """Bound of a `wide` accumulator.

    weight: integers [O, ...]; bias: integers [O]; low..high: the integers an input tap can hold (0 is added).
    """
    low, high = min(low, 0), max(high, 0)
    flat = weight.reshape(weight.shape[0], -1).astype(np.int64)
    positive = np.where(flat > 0, flat, 0).sum(axis=1)
    negative = np.where(flat < 0, flat, 0).sum(axis=1)
    start = bias.astype(np.int64) << bias_shift
    rounding = 1 << (shift - 1) if shift else 0
    top = positive * high + negative * low + start
    bottom = positive * low + negative * high + start
    return Bound(
        low=min(int(bottom.min(initial=0)), 0),
        high=max(int(top.max(initial=0)), int(start.max(initial=0))) + rounding,
    )


def running_bound(weight: NDArray[Any], low: int, high: int, shift: int, bits: int) -> Bound:
    """Bound of a `running` step: the plane at its extreme plus one input channel's kernel sum."""
    per_channel = np.abs(weight.astype(np.int64)).sum(axis=(2, 3))
    plane = (1 << (bits - 1)) << shift
    reach = int(per_channel.max(initial=0)) * max(abs(low), abs(high))
    rounding = 1 << (shift - 1) if shift else 0
    return Bound(low=-plane - reach, high=plane + reach + rounding)
