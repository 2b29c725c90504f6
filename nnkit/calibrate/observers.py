"""Streaming observers of a value's numbers: extremes and a histogram. Both merge bit-identically in any split.

The histogram covers [-R, R) with R = 2^exponent in equal bins; a number v falls in bin floor(v / width). R is the
smallest power of two that holds everything seen, so it depends on the extremes alone; when it doubles, bins merge in
pairs: floor(v / 2w) = floor(floor(v / w) / 2). Widths are powers of two, so the division is exact in float64, and the
counts are integers: merging is associative and commutative to the last bit. Memory is BINS counts, whatever was seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError

BINS = 4096
"""Bins of a histogram over [-R, R): 2,048 on each side."""

MIN_EXPONENT = -149
"""Exponent of a histogram that has seen zeros only: 2^-149 is the smallest float32."""


@dataclass(frozen=True)
class Extremes:
    """Least and greatest number seen; `count` numbers. Empty: +inf, -inf, 0."""

    low: float = math.inf
    high: float = -math.inf
    count: int = 0

    def observed(self, values: NDArray[Any], name: str) -> Extremes:
        """With the numbers of an array of any shape.

        Raises:
            ModelError: NaN or infinity among them; the place is `name`.
        """
        if values.size == 0:
            return self
        low, high = float(values.min()), float(values.max())
        if not (math.isfinite(low) and math.isfinite(high)):  # NaN propagates through min and max
            what = "NaN" if math.isnan(low) or math.isnan(high) else "infinity"
            raise ModelError(
                f"the network computes {what} here in float",
                where=name,
                remedy="check the network's weights and that preprocessing is the one it was trained with",
            )
        return self.merged(Extremes(low, high, values.size))

    def merged(self, other: Extremes) -> Extremes:
        """Of both."""
        return Extremes(min(self.low, other.low), max(self.high, other.high), self.count + other.count)


def _empty_counts() -> NDArray[np.int64]:
    return np.zeros(BINS, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of numbers by size.

    extremes: exact least and greatest number, and how many numbers there were.
    exponent: the range is [-2^exponent, 2^exponent).
    counts: [BINS] int64, read-only; bin i holds numbers v with floor(v / width) = i - BINS / 2, zeros not counted.
    zeros: how many numbers were exactly zero (any format holds zero without error).
    """

    extremes: Extremes = Extremes()
    exponent: int = MIN_EXPONENT
    counts: NDArray[np.int64] = field(default_factory=_empty_counts, repr=False)
    zeros: int = 0

    def __post_init__(self) -> None:
        counts = np.array(self.counts, dtype=np.int64)
        counts.setflags(write=False)
        object.__setattr__(self, "counts", counts)

    @property
    def width(self) -> float:
        """Width of a bin in real units."""
        return math.ldexp(2.0 / BINS, self.exponent)

    @property
    def edges(self) -> NDArray[np.float64]:
        """[BINS + 1] float64: edges of the bins in real units."""
        return np.arange(-BINS // 2, BINS // 2 + 1, dtype=np.float64) * self.width

    def observed(self, values: NDArray[Any], name: str) -> Histogram:
        """With the numbers of an array of any shape.

        Raises:
            ModelError: NaN or infinity among them; the place is `name`.
        """
        extremes = self.extremes.observed(values, name)
        if extremes is self.extremes:
            return self
        exponent = _exponent(extremes)
        scale = math.ldexp(BINS / 2.0, -exponent)  # 1 / width
        # A scale of 1 to 2^100 neither under- nor overflows in float32: exact there too, and faster.
        narrow = values.dtype == np.float32 and 1.0 <= scale <= 2.0**100
        scaled = np.multiply(values.ravel(), scale, dtype=np.float32 if narrow else np.float64)
        np.floor(scaled, out=scaled)
        scaled += BINS // 2
        counts = np.bincount(scaled.astype(np.intp), minlength=BINS)
        zeros = values.size - int(np.count_nonzero(values))
        counts[BINS // 2] -= zeros
        return Histogram(extremes, exponent, self._counts_at(exponent) + counts, self.zeros + zeros)

    def merged(self, other: Histogram) -> Histogram:
        """Of both: bit-identical to one histogram that saw all numbers, in any order."""
        extremes = self.extremes.merged(other.extremes)
        exponent = _exponent(extremes)
        counts = self._counts_at(exponent) + other._counts_at(exponent)
        return Histogram(extremes, exponent, counts, self.zeros + other.zeros)

    def _counts_at(self, exponent: int) -> NDArray[np.int64]:
        """Counts in a range of 2^exponent, which is not below this one's."""
        doublings = exponent - self.exponent
        if doublings == 0:
            return self.counts
        half = BINS // 2
        filled = np.flatnonzero(self.counts)
        wider = _empty_counts()
        np.add.at(wider, ((filled - half) >> min(doublings, 62)) + half, self.counts[filled])
        return wider


def _exponent(extremes: Extremes) -> int:
    """Smallest exponent with -2^exponent <= low and high < 2^exponent, but at least `MIN_EXPONENT`."""
    exponent = MIN_EXPONENT
    if extremes.high > 0.0:
        exponent = max(exponent, math.frexp(extremes.high)[1])  # high = m * 2^e with 0.5 <= m < 1
    if extremes.low < 0.0:
        mantissa, power = math.frexp(-extremes.low)
        exponent = max(exponent, power - 1 if mantissa == 0.5 else power)
    return exponent
