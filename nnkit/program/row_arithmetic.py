"""Normalisation of rows in integers, for fixed point and affine integers.

Means are kept in parts of the input's unit: sixteenths (p = 16) in fixed point, 256ths in affine integers, whose 8
bits are coarser. Of a row of n: mean = floor((p sum + n div 2) / n), d = p x - mean (20 or 24 bits), variance =
floor((sum d^2 + n div 2) / n) + epsilon, at least 1; variance * 4^s lies in [2^60, 2^62), root = floor(sqrt(of it));
z = (d * floor(2^61 / root)) >> (41 - s), which is the normalised element in 20 bits of fraction; y = (z * gain[i] +
offset[i] + 2^(shift - 1)) >> shift.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from nnkit.program.tensor import IntArray

FRACTION_BITS = 20
"""Fraction bits of a normalised element."""


FIXED_PARTS, AFFINE_PARTS = 16, 256
"""In how many parts of the input's unit a mean is kept."""


def normalized_rows(x: IntArray, epsilon: int, parts: int = FIXED_PARTS) -> IntArray:
    """z of every row of the last axis. epsilon: in units of (input's scale / parts)^2."""
    n = x.shape[-1]
    mean = (parts * x.sum(axis=-1, keepdims=True) + n // 2) // n
    d = parts * x - mean
    variance = (np.square(d).sum(axis=-1, keepdims=True) + n // 2) // n + epsilon
    factors = [_inverse_root(int(v)) for v in np.maximum(variance, 1).reshape(-1)]
    inverse, shift = (np.array(each, np.int64).reshape(variance.shape) for each in zip(*factors, strict=True))
    return np.asarray((d * inverse) >> shift)


def _inverse_root(variance: int) -> tuple[int, int]:
    """floor(2^61 / root) and 41 - s."""
    s = (62 - variance.bit_length()) // 2
    return (1 << 61) // isqrt(variance << (2 * s)), 41 - s
