"""A real factor as an integer multiplier and a right shift."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError

MAX_SHIFT = 62


def multiplier_and_shift(factor: float, *, bits: int = 31, name: str = "") -> tuple[int, int]:
    """(m, s) with factor = m * 2^-s up to 2^-bits of relative error; m below 2^bits, 1 <= s <= 62.

    A factor too small for a shift of 62 gets a shorter m (0 at the end: every accumulator then rounds to 0).
    Raises ModelError for a factor of 2^(bits - 1) or more, or one that is not finite; the place is `name`.
    """
    if factor == 0.0:
        return 0, 1
    if not math.isfinite(factor) or abs(factor) >= 2.0 ** (bits - 1):
        raise ModelError(
            f"a rescaling factor of {factor:.3g} fits no multiplier",
            where=name,
            remedy="calibrate with images of the network's real input: this layer's range was all but zero",
        )
    shift = min(MAX_SHIFT, bits - math.frexp(factor)[1])
    multiplier = round(factor * 2.0**shift)
    if abs(multiplier) == 1 << bits:  # rounded up to the next power of two
        multiplier, shift = multiplier // 2, shift - 1
    return multiplier, shift


def multipliers_and_shifts(
    factors: NDArray[np.float64], *, name: str = ""
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`multiplier_and_shift` of each factor: two arrays of the same length."""
    pairs = [multiplier_and_shift(float(f), name=name) for f in factors]
    return np.array([m for m, _ in pairs], np.int64), np.array([s for _, s in pairs], np.int64)
