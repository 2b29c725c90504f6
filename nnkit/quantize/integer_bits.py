"""How many fraction bits a range leaves: the published formula with its holes closed.

Published: int_bits = ceil(log2(max|x|)), frac = bits - 1 - int_bits (unsigned: bits - int_bits).
Holes: log2(0) is undefined, and an exact power of two comes out one bit short. Ours is the largest frac for
which the extreme, rounded half up, still fits the storage; it equals the published one everywhere else.
"""

from __future__ import annotations

import math

MAX_FRAC = 30
MIN_FRAC = -15


def fraction_bits(low: float, high: float, bits: int, signed: bool) -> int:
    """Largest frac in [-15, 30] such that every value of [low, high] fits `bits` bits. All-zero: `bits - 1`.

    low, high: real units. Raises ValueError where even the coarsest format cannot hold the range.
    """
    extreme = max(abs(low), abs(high))
    if extreme == 0.0:
        return min(bits - 1, MAX_FRAC)
    magnitude_bits = bits - 1 if signed else bits
    frac = min(MAX_FRAC, magnitude_bits - math.ceil(math.log2(extreme)) + 1)
    while frac >= MIN_FRAC:
        top = math.floor(high * 2.0**frac + 0.5)
        bottom = math.floor(low * 2.0**frac + 0.5)
        lowest = -(1 << (bits - 1)) if signed else 0
        if top <= (1 << magnitude_bits) - 1 and bottom >= lowest:
            return frac
        frac -= 1
    raise ValueError(f"range {low:g}..{high:g} needs more than {bits} bits of integer part")
