"""From what was observed to a range: percentile, and least squared quantisation error for a number of bits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.observers import BINS, Extremes, Histogram
from nnkit.calibrate.stats import ValueRange

FormatKind = Literal["power_of_two", "symmetric", "affine"]
"""`power_of_two`: step 2^-frac; `symmetric`: any step, zero in the middle; `affine`: any step, a zero point."""

_POWER_OF_TWO_CANDIDATES = 16
_CLIP_CANDIDATES = 160


def max_range(extremes: Extremes) -> ValueRange:
    """The extremes as they were seen; 0..0 where nothing was."""
    if extremes.count == 0:
        return ValueRange(0.0, 0.0, 0.0, 0.0)
    return ValueRange(extremes.low, extremes.high, extremes.low, extremes.high)


def percentile_range(histogram: Histogram, percentile: float) -> ValueRange:
    """The range that holds `percentile` percent of the numbers: at most (100 - percentile) / 2 percent lie beyond
    either end.

    The ends are edges of bins (never beyond the extremes): each is the exact percentile, rounded outwards by less
    than one bin.

    Args:
        percentile: above 50, at most 100 (which gives the extremes).
    """
    extremes = histogram.extremes
    beyond = (100 - Fraction(str(percentile))) / 200  # of the numbers, at one end
    if extremes.count == 0 or beyond == 0:
        return max_range(extremes)
    rank = max(1, math.ceil((1 - beyond) * extremes.count))  # so many numbers lie inside, counted from the other end
    positions, counts = _points(histogram)
    from_below = np.cumsum(counts)
    from_above = np.cumsum(counts[::-1])
    top = positions[int(np.searchsorted(from_below, rank)), 1]
    bottom = positions[::-1][int(np.searchsorted(from_above, rank)), 0]
    low, high = max(float(bottom), extremes.low), min(float(top), extremes.high)
    return ValueRange(low, high, extremes.low, extremes.high)


def mse_range(histogram: Histogram, bits: int, signed: bool, kind: FormatKind = "power_of_two") -> ValueRange:
    """The range of the format of `bits` bits that stores the numbers with the least mean squared error.

    The error (rounding inside the format, saturation outside) is integrated exactly over each bin, in which numbers
    are taken as evenly spread. Among equal candidates the widest wins.

    Returns:
        The ends of the chosen format, cut to the extremes. They need no headroom: the search has weighed clipping.
    """
    extremes = histogram.extremes
    if is_zero(extremes):
        return max_range(extremes)
    return _cut(_best_grid(histogram, bits, signed, kind), extremes)


def widest_range(
    histogram: Histogram, bits: int, signed: bool, kind: FormatKind = "power_of_two", *, within: float = 0.02
) -> ValueRange:
    """The widest range of the format whose mean squared error is at most `within` (a share) above the least.

    What rounding adds has no direction and averages out in a sum; what clipping takes from numbers that are large on
    one side alone has one, and adds up.
    """
    extremes = histogram.extremes
    if is_zero(extremes):
        return max_range(extremes)
    spread = Spread(histogram)
    limit = (1.0 + within) * spread.mean_squared_error(_best_grid(histogram, bits, signed, kind))
    grids = candidate_grids(extremes, bits, signed, kind)
    return _cut(next(grid for grid in grids if spread.mean_squared_error(grid) <= limit), extremes)


def mse_fraction_bits(histogram: Histogram, bits: int, signed: bool) -> int | None:
    """Fraction bits of the power-of-two format with the least mean squared error; None where all numbers are zero."""
    if is_zero(histogram.extremes):
        return None
    return 1 - math.frexp(_best_grid(histogram, bits, signed, "power_of_two").step)[1]  # 2^n is 0.5 * 2^(n + 1)


def mean_squared_error(histogram: Histogram, step: float, qmin: int, qmax: int) -> float:
    """Mean of (v - q(v))^2 over the numbers, q(v) = step * clamp(round(v / step), qmin, qmax).

    Numbers are taken as evenly spread over their bin; the outermost bins end at the extremes.
    """
    return Spread(histogram).mean_squared_error(Grid(step, qmin, qmax))


@dataclass(frozen=True)
class Grid:
    """The real numbers that a format holds: step * q for the integers qmin..qmax (a zero point shifts q alone)."""

    step: float
    qmin: int
    qmax: int

    @property
    def low(self) -> float:
        """Its least number."""
        return self.step * self.qmin

    @property
    def high(self) -> float:
        """Its greatest number."""
        return self.step * self.qmax


class Spread:
    """The numbers of a histogram, evenly spread over the bins from the first that is filled to the last.

    edges: [n + 1] float64, rising, the first and the last cut to the extremes.
    counts: [n] float64, zeros not counted.
    """

    def __init__(self, histogram: Histogram) -> None:
        filled = np.flatnonzero(histogram.counts)
        first, end = (int(filled[0]), int(filled[-1]) + 1) if filled.size else (0, 0)
        self.counts = histogram.counts[first:end].astype(np.float64)
        self.edges = histogram.edges[first : end + 1]
        self._numbers = histogram.extremes.count
        if filled.size:
            self.edges[0] = max(float(self.edges[0]), histogram.extremes.low)
            self.edges[-1] = min(float(self.edges[-1]), histogram.extremes.high)
        self._widths = np.diff(self.edges)

    def mean_squared_error(self, grid: Grid) -> float:
        """See the function of that name."""
        if self.counts.size == 0:
            return 0.0
        step, qmin, qmax = grid.step, grid.qmin, grid.qmax
        integrals = np.maximum(np.diff(_error_integral(self.edges, step, qmin, qmax)), 0.0)
        if self._widths[0] > 0.0 and self._widths[-1] > 0.0:
            return float(np.dot(self.counts, integrals / self._widths)) / self._numbers
        spread = self._widths > 0.0  # an outermost bin that holds nothing but one extreme, at its edge, has no width
        left = self.edges[:-1]
        errors = np.square(left - step * np.clip(np.rint(left / step), qmin, qmax))
        errors[spread] = integrals[spread] / self._widths[spread]
        return float(np.dot(self.counts, errors)) / self._numbers

    def least_clipping_error(self, grid: Grid) -> float:
        """What the numbers beyond the grid's ends add to the mean squared error at least: each at its bin's near end.

        From a grid to one whose range lies within, it never falls.
        """
        if self.counts.size == 0:
            return 0.0
        above = int(np.searchsorted(self.edges[:-1], grid.high))
        below = int(np.searchsorted(self.edges[1:], grid.low, side="right"))
        beyond_top = np.square(self.edges[above:-1] - grid.high)
        beyond_bottom = np.square(self.edges[1 : below + 1] - grid.low)
        clipped = np.dot(self.counts[above:], beyond_top) + np.dot(self.counts[:below], beyond_bottom)
        return float(clipped) / self._numbers


def is_zero(extremes: Extremes) -> bool:
    """Whether nothing but zeros was seen."""
    return extremes.count == 0 or extremes.low == extremes.high == 0.0


def _cut(grid: Grid, extremes: Extremes) -> ValueRange:
    low, high = max(grid.low, extremes.low), min(grid.high, extremes.high)
    return ValueRange(min(low, high), max(low, high), extremes.low, extremes.high)


def _best_grid(histogram: Histogram, bits: int, signed: bool, kind: FormatKind) -> Grid:
    """Each candidate's range lies within the one before: once clipping alone costs more than the best candidate, no
    later one is better.
    """
    spread = Spread(histogram)
    best, *narrower = candidate_grids(histogram.extremes, bits, signed, kind)
    least = spread.mean_squared_error(best)
    for grid in narrower:
        if spread.least_clipping_error(grid) > least:
            break
        error = spread.mean_squared_error(grid)
        if error < least:
            best, least = grid, error
    return best


def candidate_grids(extremes: Extremes, bits: int, signed: bool, kind: FormatKind) -> Sequence[Grid]:
    """Formats from the one that clips nothing to ever finer ones."""
    qmin, qmax = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    largest = max(-extremes.low, extremes.high) if signed else max(extremes.high, 0.0)
    if largest <= 0.0:
        return [Grid(1.0, qmin, qmax)]  # nothing positive for an unsigned format: everything becomes 0
    if kind == "power_of_two":
        widest = math.frexp(largest)[1] + 1 - (bits - 1 if signed else bits)
        return [Grid(math.ldexp(1.0, widest - i), qmin, qmax) for i in range(_POWER_OF_TWO_CANDIDATES)]
    factors = [1.0 - i / (_CLIP_CANDIDATES + 1) for i in range(_CLIP_CANDIDATES)]
    if kind == "symmetric":
        return [Grid(largest * factor / qmax, max(qmin, -qmax), qmax) for factor in factors]
    low, high = min(extremes.low, 0.0), max(extremes.high, 0.0)
    levels = (1 << bits) - 1
    step = (high - low) / levels
    below = min(levels, max(0, round(-low / step)))  # integers below zero
    return [Grid(step * factor, -below, levels - below) for factor in factors]


def _error_integral(x: NDArray[np.float64], step: float, qmin: int, qmax: int) -> NDArray[np.float64]:
    """The integral from 0 to x of (v - q(v))^2 dv, in closed form; x rises.

    Inside: each whole step adds step^3 / 12, the rest (x - n step)^3 / 3. Outside: (v - end)^3 / 3 more.
    """
    top, bottom = (qmax + 0.5) * step, (qmin - 0.5) * step
    inside = np.clip(x, bottom, top)
    n = np.rint(inside / step)
    integral = n * (step**3 / 12.0) + _cubed(inside - n * step) / 3.0
    below, above = int(np.searchsorted(x, bottom)), int(np.searchsorted(x, top, side="right"))
    half_cubed = (0.5 * step) ** 3
    integral[above:] += (_cubed(x[above:] - qmax * step) - half_cubed) / 3.0
    integral[:below] += (_cubed(x[:below] - qmin * step) + half_cubed) / 3.0
    return integral


def _cubed(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x * x * x  # numpy's power takes twenty times as long


def _points(histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Intervals in rising order and how many numbers each holds: the bins, with the zeros between them.

    Returns:
        [BINS + 1, 2] float64 lower and upper ends; [BINS + 1] int64 counts.
    """
    half, edges = BINS // 2, histogram.edges
    intervals = np.stack([edges[:-1], edges[1:]], axis=1)
    intervals = np.insert(intervals, half, 0.0, axis=0)
    return intervals, np.insert(histogram.counts, half, histogram.zeros)
