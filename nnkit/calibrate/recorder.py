"""What one pass over some samples observes: every sample's values are counted into sums that are kept in place."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.counting import Count, Counted, numpy_count
from nnkit.calibrate.observers import BINS, MIN_EXPONENT, Extremes, Histogram, finite_ends, range_exponent, widened
from nnkit.errors import InternalError

if TYPE_CHECKING:
    from nnkit.calibrate.all_values import AllValues


class Recorder:
    """Observers of a network's values in the making. Threads may record side by side: sums are exact in any order.

    count: what counts numbers in bins; None: extremes alone are kept.
    """

    def __init__(self, network: AllValues, count: Count | None) -> None:
        self._network, self._count = network, count
        self._sums: dict[str, _Sum] = {}
        self._lock = threading.Lock()

    def record(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Observe one sample: what `AllValues.reader` gave.

        Raises:
            ModelError: NaN or infinity; the place is the value's name.
        """
        for name, numbers in values.items():
            with self._lock:
                sums = self._sums.setdefault(name, _Sum(histogram=self._count is not None))
            if not numbers.size:
                continue
            if self._count is None:
                ends = finite_ends(numbers, name)
                with self._lock:
                    sums.add_ends(*ends, numbers.size)
                continue
            exponents = sums.exponents
            counted = self._count(numbers, *exponents)
            if counted is None:  # in most samples nothing lies beyond what others have had
                ends = finite_ends(numbers, name)
                with self._lock:
                    exponents = sums.widened_for(*ends)
                counted = self._count(numbers, *exponents) or numpy_count(numbers, *exponents)
            if counted is None:
                raise InternalError("a number lies beyond the range that was made for it", where=name)
            with self._lock:
                sums.add(counted, exponents, numbers.size)

    def observers(self) -> Mapping[str, Extremes] | Mapping[str, Histogram]:
        """One for every value, in the graph's order; none where nothing was recorded. Ends the recording."""
        if not self._sums:
            return {}
        derived = self._network.derived
        by_value: dict[str, Any] = {}
        for name, source in derived.rectified.items():
            sums = self._sums[source]
            by_value[name] = sums.rectified_extremes() if self._count is None else sums.rectified_histogram()
        for name, sums in self._sums.items():
            by_value[name] = sums.extremes() if self._count is None else sums.histogram()
        return {name: by_value[derived.same.get(name, name)] for name in self._network.names}


class _Sum:
    """Extremes and, where asked for, a histogram that grow in place.

    Negative and positive numbers each have bins as fine as their own range allows. A histogram that has one width for
    both is made of them at the end, and so is that of a Relu behind the value.
    """

    def __init__(self, *, histogram: bool) -> None:
        self.exponents = MIN_EXPONENT, MIN_EXPONENT
        self._low, self._high, self._numbers, self._zeros = math.inf, -math.inf, 0, 0
        self._counts = np.zeros(BINS if histogram else 0, np.int64)

    def add_ends(self, low: float, high: float, numbers: int) -> None:
        """So many numbers more, with these extremes."""
        self._low, self._high = min(self._low, low), max(self._high, high)
        self._numbers += numbers

    def widened_for(self, low: float, high: float) -> tuple[int, int]:
        """The exponents, now of ranges that hold these numbers too."""
        negative, positive = self.exponents
        exponents = max(negative, range_exponent(low, 0.0)), max(positive, range_exponent(0.0, high))
        self._counts = widened(self._counts, exponents[0] - negative, exponents[1] - positive)
        self.exponents = exponents
        return exponents

    def add(self, counted: Counted, exponents: tuple[int, int], numbers: int) -> None:
        """What was counted of so many numbers, in ranges of exponents that this sum has had."""
        self.add_ends(counted.low, counted.high, numbers)
        negative, positive = self.exponents
        self._counts += widened(counted.counts, negative - exponents[0], positive - exponents[1])
        self._zeros += counted.zeros

    def extremes(self) -> Extremes:
        """As they are now."""
        return Extremes(self._low, self._high, self._numbers)

    def rectified_extremes(self) -> Extremes:
        """Those behind a Relu."""
        if not self._numbers:
            return Extremes()
        return Extremes(max(0.0, self._low), max(0.0, self._high), self._numbers)

    def histogram(self) -> Histogram:
        """As it is now."""
        negative, positive = self.exponents
        exponent = max(negative, positive)
        counts = widened(self._counts, exponent - negative, exponent - positive)
        counts.setflags(write=False)  # so that they are not copied
        return Histogram(self.extremes(), exponent, counts, self._zeros)

    def rectified_histogram(self) -> Histogram:
        """That behind a Relu, with zeros for negative numbers."""
        counts = self._counts.copy()
        counts[: BINS // 2] = 0
        counts.setflags(write=False)
        zeros = self._zeros + int(self._counts[: BINS // 2].sum())
        return Histogram(self.rectified_extremes(), self.exponents[1], counts, zeros)
