"""How far two tensors are apart: cosine, SQNR, largest difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Distance:
    """Differences of a tensor from its reference, over all values of all inputs.

    cosine: sum(a*r) / (|a| |r|). sqnr_db: 10 log10(sum r^2 / sum (a-r)^2), infinite when equal.
    max_abs: largest |a - r| in real units. All are NaN where a tensor holds a value that is not finite.
    """

    cosine: float
    sqnr_db: float
    max_abs: float

    @property
    def in_words(self) -> str:
        """`cosine 0.999812, 35.1 dB`."""
        if np.isnan(self.cosine):
            return "not measured"
        return f"cosine {self.cosine:.6f}, {self.sqnr_db:.1f} dB"

    def as_json(self) -> dict[str, float | None]:
        """Numbers for a report; what is not finite is null, JSON has no infinity."""
        values = {"cosine": self.cosine, "sqnr_db": self.sqnr_db, "max_abs": self.max_abs}
        return {name: value if np.isfinite(value) else None for name, value in values.items()}


NOT_MEASURED = Distance(float("nan"), float("nan"), float("nan"))


class DistanceSum:
    """Accumulates a Distance over several inputs; memory does not grow."""

    def __init__(self) -> None:
        self._dot = self._own = self._reference = self._error = self._max = 0.0
        self._finite = True

    def add(self, values: NDArray[Any], reference: NDArray[Any]) -> None:
        """Take one pair of tensors with the same number of elements, in real units."""
        a = np.asarray(values, dtype=np.float64).ravel()
        r = np.asarray(reference, dtype=np.float64).ravel()
        if not (np.isfinite(a).all() and np.isfinite(r).all()):
            self._finite = False  # a maximum would pass over NaN
            return
        error = a - r
        # Sums, not BLAS dot products: pairwise summation is more exact, and no thread pool is woken for a vector.
        self._dot += float(np.sum(a * r))
        self._own += float(np.sum(a * a))
        self._reference += float(np.sum(r * r))
        self._error += float(np.sum(error * error))
        self._max = max(self._max, float(np.abs(error).max(initial=0.0)))

    def merge(self, other: DistanceSum) -> None:
        """Take what another one has taken. Sums are floats: the order of merging matters in the last bits."""
        self._dot += other._dot
        self._own += other._own
        self._reference += other._reference
        self._error += other._error
        self._max = max(self._max, other._max)
        self._finite = self._finite and other._finite

    def result(self) -> Distance:
        """The distance so far. Two all-zero tensors have cosine 1."""
        if not self._finite:
            return NOT_MEASURED
        norms = float(np.sqrt(self._own * self._reference))
        cosine = self._dot / norms if norms else (1.0 if self._own == self._reference else 0.0)
        if self._error == 0.0:
            sqnr_db = float("inf")
        elif self._reference == 0.0:
            sqnr_db = float("-inf")
        else:
            sqnr_db = float(10.0 * np.log10(self._reference / self._error))
        return Distance(min(cosine, 1.0), sqnr_db, self._max)


def distance(values: NDArray[Any], reference: NDArray[Any]) -> Distance:
    """The distance of one tensor from its reference."""
    total = DistanceSum()
    total.add(values, reference)
    return total.result()
