"""What one pass over some samples observes: every sample's values are counted into sums that are kept in place."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
    from nnkit.calibrate.counting import BinCounts

_MOST_FINER = 4
"""Doublings: beyond that, finer bins for a whole range are too many to be cheap."""


class Recorder:
    """Observers of a network's values in the making. Threads may record side by side: sums are exact in any order.

    histograms: whether they are kept, or extremes alone. count: what counts numbers in bins.
    """

    def __init__(self, network: AllValues, *, histograms: bool, count: BinCounts = bin_counts) -> None:
        self._network, self._histograms, self._bin_counts = network, histograms, count
        self._behind_relu = {source: name for name, source in network.derived.rectified.items()}
        self._sums: dict[str, _Sum] = {}
        self._lock = threading.Lock()

    def record(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Observe one sample: what `AllValues.reader` gave.

        Raises:
            ModelError: NaN or infinity; the place is the value's name. Nothing of the sample is recorded then.
        """
        ends = {name: finite_ends(numbers, name) for name, numbers in values.items() if numbers.size}
        for name, numbers in values.items():
            behind_name = self._behind_relu.get(name)
            with self._lock:
                sums = self._sum(name)
                behind = None if behind_name is None else self._sum(behind_name)
                if name not in ends:
                    continue
                low, high = ends[name]
                sums.widen(low, high, numbers.size)
                if behind is not None:
                    behind.widen(max(0.0, low), max(0.0, high), numbers.size)
            if self._histograms and behind is None:
                self._add(sums, *self._counted(numbers, sums.exponent))
            elif self._histograms and behind is not None:
                self._count_both(numbers, sums, behind)

    def _sum(self, name: str) -> _Sum:
        if name not in self._sums:
            self._sums[name] = _Sum(counted=self._histograms)
        return self._sums[name]

    def _counted(self, numbers: NDArray[Any], exponent: int) -> tuple[NDArray[np.int64], int, int]:
        """Counts, zeros, and the exponent that they are for."""
        return *self._bin_counts(numbers, exponent, 0), exponent

    def _count_both(self, numbers: NDArray[Any], sums: _Sum, behind: _Sum) -> None:
        """behind: of the Relu that rectifies the numbers."""
        # Without the negative numbers the range may be smaller, and the bins finer. Counted once, for both.
        with self._lock:
            exponent, behind_exponent = sums.exponent, behind.exponent
        finer = exponent - behind_exponent
        if finer > _MOST_FINER:
            self._add(sums, *self._counted(numbers, exponent))
            self._add(behind, *self._counted(np.maximum(numbers, 0), behind_exponent))
            return
        counts, zeros = self._bin_counts(numbers, behind_exponent, finer)
        half, negative = BINS // 2, (BINS // 2) << finer
        merged = np.zeros(BINS, np.int64)
        merged[: half + (half >> finer)] = in_pairs(counts, finer)
        self._add(sums, merged, zeros, exponent)
        merged[:half], merged[half:] = 0, counts[negative:]
        self._add(behind, merged, zeros + int(counts[:negative].sum()), behind_exponent)

    def _add(self, sums: _Sum, counts: NDArray[np.int64], zeros: int, exponent: int) -> None:
        with self._lock:
            sums.add(counts, zeros, exponent)

    def observers(self) -> Mapping[str, Extremes] | Mapping[str, Histogram]:
        """Of all values, in the graph's order; none where nothing was recorded. Ends the recording."""
        if not self._sums:
            return {}
        found: dict[str, Any] = {
            name: each.histogram() if self._histograms else each.extremes() for name, each in self._sums.items()
        }
        same = self._network.derived.same
        return {name: found[same.get(name, name)] for name in self._network.names}


class _Sum:
    """Extremes and, where `counted`, a histogram that grow in place."""

    def __init__(self, *, counted: bool) -> None:
        self.exponent = MIN_EXPONENT
        self._low, self._high, self._numbers = math.inf, -math.inf, 0
        self._zeros = 0
        self._counts = np.zeros(BINS if counted else 0, np.int64)

    def widen(self, low: float, high: float, numbers: int) -> None:
        """So many numbers more, with these extremes; `add` takes their counts."""
        self._numbers += numbers
        if low < self._low or high > self._high:
            self._low, self._high = min(self._low, low), max(self._high, high)
            exponent = range_exponent(self._low, self._high)
            if self._counts.size:
                self._counts = widened(self._counts, exponent - self.exponent)
            self.exponent = exponent

    def add(self, counts: NDArray[np.int64], zeros: int, exponent: int) -> None:
        """[BINS] counts of numbers in the range of an exponent that this sum's has been."""
        self._counts += widened(counts, self.exponent - exponent)
        self._zeros += zeros

    def extremes(self) -> Extremes:
        """As they are now."""
        return Extremes(self._low, self._high, self._numbers)

    def histogram(self) -> Histogram:
        """As it is now; nothing can be added any more."""
        self._counts.setflags(write=False)  # so that they are not copied
        return Histogram(self.extremes(), self.exponent, self._counts, self._zeros)
