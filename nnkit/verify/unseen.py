"""What the verification inputs show that calibration never saw: values outside the range that a layer was given.

A network that is accurate on its calibration images and poor elsewhere mostly suffers from this: a value beyond its
range is clipped, and what divides by it is wrong by as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.stats import ValueRange


@dataclass(frozen=True)
class Unseen:
    """Values of one layer's output, in the float network, that lie outside what calibration saw of it.

    share: how many of all values. factor: the largest magnitude, in units of the largest that calibration saw.
    source: the input that has it.
    """

    share: float
    factor: float
    source: str

    def as_json(self) -> dict[str, Any]:
        """For a report."""
        return {"share": self.share, "factor": self.factor, "input": self.source}


class UnseenSum:
    """Accumulates an Unseen over several inputs; memory does not grow."""

    def __init__(self, seen: ValueRange) -> None:
        self._seen = seen
        self._largest = max(abs(seen.observed_low), abs(seen.observed_high))
        self._values = self._outside = 0
        self._factor, self._source = 0.0, ""

    def add(self, values: NDArray[Any], source: str) -> None:
        """Take what one input gives, in real units."""
        self._values += values.size
        if not values.size or not self._largest:
            return
        low, high = float(values.min()), float(values.max())
        if low >= self._seen.observed_low and high <= self._seen.observed_high:
            return
        outside = (values < self._seen.observed_low) | (values > self._seen.observed_high)
        self._outside += int(np.count_nonzero(outside))
        self._found(max(abs(low), abs(high)) / self._largest, source)

    def merge(self, other: UnseenSum) -> None:
        """Take what another one has taken, of inputs that come later."""
        self._values += other._values
        self._outside += other._outside
        self._found(other._factor, other._source)

    def _found(self, factor: float, source: str) -> None:
        if factor > self._factor:
            self._factor, self._source = factor, source

    def result(self) -> Unseen | None:
        """None where nothing lies outside."""
        if not self._outside:
            return None
        return Unseen(self._outside / self._values, self._factor, self._source)
