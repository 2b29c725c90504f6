"""Natural logarithms of sums in integers, for fixed point and affine integers.

Of a sum s whose unit is 2^-b: with k = floor(log2 s), m = s in 32 bits (2^(31 - k) s, rounded down),
i = (m >> 23) & 255 and r = (m >> 8) & 32767, it is (k - b) * LN2 + table[i] +
(((table[i + 1] - table[i]) * r) >> 15), in LOGARITHM_BITS bits of fraction. Between entries a logarithm bends by at
most 2^-19.
"""

from __future__ import annotations

import numpy as np

from nnkit.program.tensor import IntArray

LOGARITHM_BITS = 24
"""Bits of fraction of a logarithm."""
LN2 = round(np.log(2.0) * 2**LOGARITHM_BITS)
"""ln 2 with these."""


def logarithm_table() -> IntArray:
    """[257]: ln(1 + i / 256)."""
    return np.asarray(np.rint(np.log1p(np.arange(257) / 256) * 2.0**LOGARITHM_BITS), np.int64)


def logarithms(sums: IntArray, unit_bits: int, table: IntArray) -> IntArray:
    """The logarithm of every sum, each at least 1 and below 2^53."""
    power = np.frexp(sums.astype(np.float64))[1] - 1  # floor(log2), exact
    mantissa = np.where(power <= 31, sums << np.maximum(31 - power, 0), sums >> np.maximum(power - 31, 0))
    index, rest = (mantissa >> 23) & 255, (mantissa >> 8) & 32767
    low, high = table[index], table[index + 1]
    return np.asarray((power - unit_bits) * LN2 + low + (((high - low) * rest) >> 15), np.int64)
