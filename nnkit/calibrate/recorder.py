"""What one pass over some samples observes: every sample's values are counted into sums that are kept in place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.observers import (
    BINS,
    MIN_EXPONENT,
    Extremes,
    Histogram,
    bin_counts,
    finite_ends,
    in_pairs,
    range_exponent,
    widened,
)

if TYPE_CHECKING:
    from nnkit.calibrate.all_values import AllValues

Ends: TypeAlias = tuple[float, float]

_MOST_FINER = 4
"""Doublings: beyond that, finer bins for a whole range are too many to be cheap."""


class Recorder:
    """Observers of a network's values in the making.

    histograms: whether they are kept, or extremes alone.
    """

    def __init__(self, network: AllValues, *, histograms: bool) -> None:
        self._network, self._histograms = network, histograms
        self._behind_relu = {source: name for name, source in network.derived.rectified.items()}
        self._sums: dict[str, _Sum] = {}

    def record(self, values: dict[str, NDArray[Any]], ends: Mapping[str, Ends]) -> None:
        """Observe one sample: what `AllValues.run` gave, which is used up, and what `ends_of` gives for that."""
        for name in list(values):
            numbers = values.pop(name)
            behind = self._behind_relu.get(name)
            if name not in self._sums:
                self._sums[name] = _Sum()
                if behind is not None:
                    self._sums[behind] = _Sum()
            if name in ends:
                low, high = ends[name]
                self._sums[name].widen(low, high, numbers.size)
                if behind is not None:
                    self._sums[behind].widen(max(0.0, low), max(0.0, high), numbers.size)
                if self._histograms:
                    self._count(numbers, self._sums[name], None if behind is None else self._sums[behind])

    def _count(self, numbers: NDArray[Any], sums: _Sum, behind: _Sum | None) -> None:
        """behind: of the Relu that rectifies the numbers, where there is one."""
        if behind is None:
            sums.add(*bin_counts(numbers, sums.exponent))
            return
        # Without the negative numbers the range may be smaller, and the bins finer. Counted once, for both.
        finer = sums.exponent - behind.exponent
        if finer > _MOST_FINER:
            sums.add(*bin_counts(numbers, sums.exponent))
            behind.add(*bin_counts(np.maximum(numbers, 0), behind.exponent))
            return
        counts, zeros = bin_counts(numbers, behind.exponent, finer)
        half, negative = BINS // 2, (BINS // 2) << finer
        merged = np.zeros(BINS, np.int64)
        merged[: half + (half >> finer)] = in_pairs(counts, finer)
        sums.add(merged, zeros)
        zeros += int(counts[:negative].sum())
        merged[:half], merged[half:] = 0, counts[negative:]
        behind.add(merged, zeros)

    def observers(self) -> Mapping[str, Extremes] | Mapping[str, Histogram]:
        """Of all values, in the graph's order; none where nothing was recorded. Ends the recording."""
        if not self._sums:
            return {}
        found: dict[str, Any] = {
            name: each.histogram() if self._histograms else each.extremes() for name, each in self._sums.items()
        }
        same = self._network.derived.same
        return {name: found[same.get(name, name)] for name in self._network.names}


def ends_of(values: Mapping[str, NDArray[Any]]) -> dict[str, Ends]:
    """Least and greatest number by name; of arrays that are empty nothing.

    Raises:
        ModelError: NaN or infinity; the place is the value's name.
    """
    return {name: finite_ends(numbers, name) for name, numbers in values.items() if numbers.size}


class _Sum:
    """Extremes and a histogram that grow in place."""

    def __init__(self) -> None:
        self.exponent = MIN_EXPONENT
        self._low, self._high, self._numbers = math.inf, -math.inf, 0
        self._zeros = 0
        self._counts = np.zeros(BINS, np.int64)

    def widen(self, low: float, high: float, numbers: int) -> None:
        """So many numbers more, with these extremes; `add` takes their counts."""
        self._numbers += numbers
        if low < self._low or high > self._high:
            self._low, self._high = min(self._low, low), max(self._high, high)
            exponent = range_exponent(self._low, self._high)
            self._counts = widened(self._counts, exponent - self.exponent)
            self.exponent = exponent

    def add(self, counts: NDArray[np.int64], zeros: int) -> None:
        """[BINS] counts of numbers, in the range of `exponent`."""
        self._counts += counts
        self._zeros += zeros

    def extremes(self) -> Extremes:
        """As they are now."""
        return Extremes(self._low, self._high, self._numbers)

    def histogram(self) -> Histogram:
        """As it is now; nothing can be added any more."""
        self._counts.setflags(write=False)  # so that they are not copied
        return Histogram(self.extremes(), self.exponent, self._counts, self._zeros)
