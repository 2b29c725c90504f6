"""The range whose grid keeps the distribution of a value best, by Kullback-Leibler divergence.

P is the distribution of the numbers, with what a candidate range clips folded into its last level; Q is what the grid
keeps of it: the numbers inside, the mass of each level spread evenly over the level. The range with the least
KL(P || Q) is taken. Source of the idea: Migacz, "8-bit inference with TensorRT", 2017. Three things differ:

* The density is interpolated between the histogram's bins (2,048 a side), and every level is looked at in `_SUB_BINS`
  parts. Bins of their own would let levels as narrow as a bin keep the distribution for free, so that the narrowest
  candidate would win for no reason.
* Zeros do not count: every grid holds them exactly, and their one bin would outweigh the shape of the rest.
* A divergence of distributions does not see magnitudes: behind a Relu it gives up the few large numbers, which carry
  the signal, for a finer picture of the many small ones. A range is therefore no candidate where its mean squared
  error exceeds that of the range that clips nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.observers import Histogram
from nnkit.calibrate.ranges import (
    FormatKind,
    Grid,
    Spread,
    candidate_grids,
    is_zero,
    max_range,
)
from nnkit.calibrate.stats import ValueRange

_SUB_BINS = 8
_SMALLEST_MASS = 0.5  # numbers: stands for an end level that holds none, so that the divergence stays finite


def kl_range(histogram: Histogram, bits: int, signed: bool, kind: FormatKind = "power_of_two") -> ValueRange:
    """The range of the format of `bits` bits with the least divergence, cut to the extremes; see the module.

    signed, kind: as `nnkit.calibrate.ranges.mse_range`. Among equal candidates the widest wins.
    """
    extremes = histogram.extremes
    if is_zero(extremes):
        return max_range(extremes)
    allowed = _no_worse_than_the_widest(Spread(histogram), candidate_grids(extremes, bits, signed, kind))
    density = _Density(histogram)
    divergences = [divergence(density, grid) for grid in allowed]
    grid = allowed[divergences.index(min(divergences))]
    low, high = max(grid.low, extremes.low), min(grid.high, extremes.high)
    return ValueRange(min(low, high), max(low, high), extremes.low, extremes.high)


def _no_worse_than_the_widest(spread: Spread, grids: Sequence[Grid]) -> list[Grid]:
    """The grids whose mean squared error is at most that of the first, whose range holds those of the others."""
    limit = spread.mean_squared_error(grids[0])
    allowed = [grids[0]]
    for grid in grids[1:]:
        if spread.least_clipping_error(grid) > limit:
            break  # so do all that follow
        if spread.mean_squared_error(grid) <= limit:
            allowed.append(grid)
    return allowed


class _Density:
    """Numbers per real unit, by linear interpolation between the centres of the histogram's bins."""

    def __init__(self, histogram: Histogram) -> None:
        edges, half = histogram.edges, histogram.counts.size // 2
        self.counts = histogram.counts.astype(np.float64)
        self.centres = (edges[:-1] + edges[1:]) / 2
        self.total = float(self.counts.sum())
        heights = self.counts / histogram.width
        self._low, self._high = histogram.extremes.low, histogram.extremes.high
        # One-sided numbers stop at zero at full height: a slope down to the empty bin beyond would halve the first.
        if self._low >= 0.0:
            heights[half - 1] = heights[half]
        if self._high <= 0.0:
            heights[half] = heights[half - 1]
        self._heights = heights

    def mass(self, points: NDArray[np.float64], width: float) -> NDArray[np.float64]:
        """How many numbers lie in parts of `width` around the points."""
        inside = (points >= self._low) & (points <= self._high)
        return np.where(inside, np.interp(points, self.centres, self._heights) * width, 0.0)


def divergence(density: _Density, grid: Grid) -> float:
    """KL(P || Q) in nats of the numbers but zero; infinite where none of them lies inside."""
    levels = grid.qmax - grid.qmin + 1
    width = grid.step / _SUB_BINS
    bottom, top = grid.low - grid.step / 2, grid.high + grid.step / 2
    points = bottom + width * (np.arange(levels * _SUB_BINS) + 0.5)
    parts = density.mass(np.asarray(points, np.float64), width).reshape(levels, _SUB_BINS)
    kept = parts.sum(axis=1)
    inside = float(kept.sum())
    if inside <= 0.0:
        return math.inf
    even = np.repeat(kept[:, None] / _SUB_BINS, _SUB_BINS, axis=1)
    some = parts > 0.0
    # sum over the levels of p log(p / q), unnormalised; then the two ends, with what was folded into them.
    total = float(np.sum(parts[some] * np.log(parts[some] / even[some])))
    clipped = 0.0
    for end, beyond in ((0, density.centres < bottom), (-1, density.centres > top)):
        folded = float(density.counts[beyond].sum())
        clipped += folded
        held = max(float(kept[end]), _SMALLEST_MASS)
        total += (held + folded) * math.log((held + folded) / held)
    everything = inside + clipped
    return total / everything - math.log(everything / inside)
