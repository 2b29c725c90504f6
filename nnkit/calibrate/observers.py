"""Streaming observers of a value's numbers: extremes and a histogram. Both merge bit-identically in any split.

The histogram covers [-R, R) with R = 2^exponent in equal bins; a number v falls in bin floor(v / width). R is the
smallest power of two that holds everything seen, so it depends on the extremes alone; when it doubles, bins merge in
pairs: floor(v / 2w) = floor(floor(v / w) / 2). Widths are powers of two, so the division is exact in float64, and the
counts are integers: merging is associative and commutative to the last bit. Memory is BINS counts, whatever was seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import ModelError

BINS = 4096
"""Bins of a histogram over [-R, R): 2,048 on each side."""

_CHUNK = 1 << 15
"""Numbers that are binned at a time, so that what is computed on the way stays in a core's cache."""

MIN_EXPONENT = -149
"""Exponent of a histogram that has seen zeros only: 2^-149 is the smallest float32."""


@dataclass(frozen=True)
class Extremes:
    """Least and greatest number seen; of `count` numbers. Empty: +inf, -inf, 0."""

    low: float = math.inf
    high: float = -math.inf
    count: int = 0

    def observed(self, values: NDArray[Any], name: str) -> Extremes:
        """With the numbers of an array of any shape.

        Raises:
            ModelError: NaN or infinity among them; the place is `name`.
        """
        return self.merged(Extremes(*finite_ends(values, name), values.size)) if values.size else self

    def merged(self, other: Extremes) -> Extremes:
        """The extremes of what both have seen."""
        return Extremes(min(self.low, other.low), max(self.high, other.high), self.count + other.count)


def finite_ends(values: NDArray[Any], name: str) -> tuple[float, float]:
    """Least and greatest number of an array that is not empty.

    Raises:
        ModelError: NaN or infinity among them; the place is `name`.
    """
    low, high = float(values.min()), float(values.max())
    if math.isfinite(low) and math.isfinite(high):  # NaN propagates through min and max
        return low, high
    what = "NaN" if math.isnan(low) or math.isnan(high) else "infinity"
    raise ModelError(
        f"the network computes {what} here in float",
        where=name,
        remedy="check the network's weights and that preprocessing is the one it was trained with",
    )


def _empty_counts() -> NDArray[np.int64]:
    return np.zeros(BINS, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of numbers by size.

    extremes: exact least and greatest number, and how many numbers were counted.
    exponent: the range is [-2^exponent, 2^exponent).
    counts: [BINS] int64, read-only; bin i holds numbers v with floor(v / width) = i - BINS / 2, zeros not counted.
        An array that may be written to is copied.
    zeros: how many numbers were exactly zero (any format holds zero without error).
    """

    extremes: Extremes = Extremes()
    exponent: int = MIN_EXPONENT
    counts: NDArray[np.int64] = field(default_factory=_empty_counts, repr=False)
    zeros: int = 0

    def __post_init__(self) -> None:
        if self.counts.flags.writeable or self.counts.dtype != np.int64:
            counts = np.array(self.counts, dtype=np.int64)
            counts.setflags(write=False)
            object.__setattr__(self, "counts", counts)

    def __reduce__(self) -> tuple[Callable[..., Histogram], tuple[object, ...]]:
        """For other processes: the bins from the first that is filled to the last, in as few bytes as they need."""
        filled = np.flatnonzero(self.counts)
        first, end = (int(filled[0]), int(filled[-1]) + 1) if filled.size else (0, 0)
        counts = self.counts[first:end]
        packed = counts.astype(np.min_scalar_type(counts.max(initial=0)))
        return _unpacked, (self.extremes, self.exponent, first, packed, self.zeros)

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
        if values.size == 0:
            return self
        extremes = Extremes(*finite_ends(values, name), values.size)
        exponent = range_exponent(extremes.low, extremes.high)
        counts, zeros = bin_counts(values, exponent, exponent)
        counts.setflags(write=False)
        return self.merged(Histogram(extremes, exponent, counts, zeros))

    def merged(self, other: Histogram) -> Histogram:
        """The histogram of what both have seen: bit-identical to one that saw all numbers, in any order."""
        extremes = self.extremes.merged(other.extremes)
        exponent = max(self.exponent, other.exponent)
        counts = _all_widened(self, exponent) + _all_widened(other, exponent)
        counts.setflags(write=False)
        return Histogram(extremes, exponent, counts, self.zeros + other.zeros)


def _all_widened(histogram: Histogram, exponent: int) -> NDArray[np.int64]:
    doublings = exponent - histogram.exponent
    return widened(histogram.counts, doublings, doublings)


def _unpacked(
    extremes: Extremes, exponent: int, first: int, packed: NDArray[np.unsignedinteger[Any]], zeros: int
) -> Histogram:
    counts = _empty_counts()
    counts[first : first + packed.size] = packed
    counts.setflags(write=False)
    return Histogram(extremes, exponent, counts, zeros)


def bin_counts(numbers: NDArray[Any], negative_exponent: int, exponent: int) -> tuple[NDArray[np.int64], int]:
    """Counts of an array's numbers, zeros apart, in bins of their own size for negative and positive ones.

    Negative ones lie in [-2^negative_exponent, 0), the others in [0, 2^exponent).

    Returns:
        [BINS] counts, those of negative numbers before those of positive ones; how many numbers are zero.
    """
    half = BINS // 2
    narrow = None not in (float32_scale(numbers, negative_exponent), float32_scale(numbers, exponent))
    scale, coarser = math.ldexp(half, -exponent), math.ldexp(1.0, exponent - negative_exponent)
    counts = _empty_counts()
    zeros = 0
    flat = numbers.reshape(-1)
    buffer: NDArray[Any] = np.empty(min(flat.size, _CHUNK), np.float32 if narrow else np.float64)
    for first in range(0, flat.size, _CHUNK):
        chunk = flat[first : first + _CHUNK]
        scaled = buffer[: chunk.size]
        np.multiply(chunk, scale, out=scaled, dtype=scaled.dtype)
        if coarser != 1.0:
            np.multiply(scaled, coarser, out=scaled, where=scaled < 0)
        np.floor(scaled, out=scaled)
        scaled += half
        # To 32 bits first: from floats to 64 bits there is no vector instruction on most processors.
        counts += np.bincount(scaled.astype(np.int32), minlength=BINS)
        zeros += int(np.count_nonzero(chunk == 0))  # ten times as fast as counting the floats that are not
    counts[half] -= zeros
    return counts, zeros


def float32_scale(numbers: NDArray[Any], exponent: int) -> float | None:
    """1 / width of a bin of the exponent's range, where multiplying with it is exact in float32.

    None where a product may under- or overflow, or where the numbers are no float32.
    """
    scale = math.ldexp(BINS // 2, -exponent)
    return scale if numbers.dtype == np.float32 and 1.0 <= scale <= 2.0**100 else None


def widened(counts: NDArray[np.int64], negative_doublings: int, doublings: int) -> NDArray[np.int64]:
    """Counts in bins so many times doubled (none or more) on each side; the array itself where both are 0."""
    if negative_doublings == doublings == 0:
        return counts
    half = BINS // 2
    wider = _empty_counts()
    wider[:half] = _in_pairs(counts[:half][::-1], negative_doublings)[::-1]
    wider[half:] = _in_pairs(counts[half:], doublings)
    return wider


def _in_pairs(side: NDArray[np.int64], doublings: int) -> NDArray[np.int64]:
    """Bins of one side from zero on, neighbours merged in pairs so many times over, empty ones behind."""
    merged = np.zeros_like(side)
    if doublings >= side.size.bit_length() - 1:
        merged[0] = side.sum()
        return merged
    for _ in range(doublings):
        side = side[0::2] + side[1::2]
    merged[: side.size] = side
    return merged


def range_exponent(low: float, high: float) -> int:
    """Smallest exponent with -2^exponent <= low and high < 2^exponent, but at least `MIN_EXPONENT`."""
    exponent = MIN_EXPONENT
    if high > 0.0:
        exponent = max(exponent, math.frexp(high)[1])  # high = m * 2^e with 0.5 <= m < 1
    if low < 0.0:
        mantissa, power = math.frexp(-low)
        exponent = max(exponent, power - 1 if mantissa == 0.5 else power)
    return exponent
