"""CalibrationStats: what was observed of every value, in a form that merges and can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class ValueRange:
    """The range a method chose for one value, in real units; `observed_*` are the extremes seen."""

    low: float
    high: float
    observed_low: float
    observed_high: float

    @property
    def max_abs(self) -> float:
        """Largest magnitude of the chosen range."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class CalibrationStats:
    """Chosen ranges by value name, and how they came about.

    method: `max`, `percentile` or `mse`, or `table` where an edited table was pinned.
    """

    ranges: Mapping[str, ValueRange]
    method: str
    images: int
    graph_digest: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", MappingProxyType(dict(self.ranges)))
