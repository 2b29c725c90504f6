"""Biases and multipliers of the NNIE as integers, as the mapper makes them.

A layer's accumulator counts in units of 2^(-s / F), where s = -(zW + zX): the scales of its weights and its input.
The bias is int32 in that unit: rint(b 2^(s / F)). The result is (accumulator * multiplier) >> shift in S20.12: the
multiplier is rint(2^(42 - s / F)) and the shift 30; where that multiplier would not fit 31 bits, it is
rint(2^(31 - s / F)) with a shift of 19. F is 16 with 8 bits, and 128 with 16 bits. The shift rounds down.

Source: files that the vendor's mapper made, of 8 bits; for 16 bits it is the same formula with that format's F. The
shift of 19 follows from the multipliers: no other gives S20.12.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_SHIFT, _SHORT_SHIFT, _FRACTION = 30, 19, 12
_MULTIPLIER_BITS, _PRODUCT_BITS = 31, 62

LARGEST_MULTIPLIER = 1 << _PRODUCT_BITS
"""Beyond it nothing changes: any sum but 0 saturates."""


def integer_biases(bias: NDArray[np.float64], s: int, steps_per_octave: int) -> NDArray[np.int64]:
    """Biases in the accumulator's unit."""
    return np.rint(bias_in_units(bias, s, steps_per_octave)).astype(np.int64)


def bias_in_units(bias: NDArray[np.float64], s: int, steps_per_octave: int) -> NDArray[np.float64]:
    """Biases in the accumulator's unit, not rounded."""
    return np.asarray(bias * 2.0 ** (s / steps_per_octave), np.float64)


def shift(s: int, steps_per_octave: int) -> int:
    """By how many bits a product of accumulator and multiplier is shifted to be S20.12."""
    plain = np.rint(2.0 ** (_SHIFT + _FRACTION - s / steps_per_octave))
    return _SHIFT if plain < 1 << _MULTIPLIER_BITS else _SHORT_SHIFT


def multiplier(s: int, steps_per_octave: int) -> int:
    """What turns an accumulator into S20.12."""
    return int(np.rint(2.0 ** (shift(s, steps_per_octave) + _FRACTION - s / steps_per_octave)))


def scales_of_multiplier(stored: int, steps_per_octave: int) -> tuple[int, ...]:
    """Each s that a multiplier may stand for, one for either shift; none where the formula does not give it."""
    if stored <= 0:
        return ()
    octaves = [shifted + _FRACTION - math.log2(stored) for shifted in (_SHIFT, _SHORT_SHIFT)]
    steps = [round(steps_per_octave * each) for each in octaves]
    return tuple(s for s in steps if multiplier(s, steps_per_octave) == stored)


def to_s20_12(
    sums: NDArray[np.int64], multipliers: NDArray[np.int64], shifts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Accumulators to stored results: (sum * multiplier) >> shift, saturated to 32 bits. The arrays broadcast.

    multipliers: at most `LARGEST_MULTIPLIER`.

    Sums whose result saturates are cut before they are multiplied, so that no product has more than 63 bits.
    """
    most = (1 << _PRODUCT_BITS) // np.maximum(multipliers, 1)
    shifted = (np.clip(sums, -most, most) * multipliers) >> shifts
    return np.asarray(np.clip(shifted, -(1 << 31), (1 << 31) - 1))
