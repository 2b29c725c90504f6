"""What the simulator sees while it runs: accumulator extremes, wraps and saturations per op."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class OpWatch:
    """Observations of one op over all inputs simulated so far.

    accumulator_max: largest |accumulator| seen, rounding constant included.
    wraps: accumulator values outside the accumulator's width (their result is modulo 2^width).
    saturated: values clamped by the storage range of the output (before any intended clip).
    values: output-stage values computed.
    """

    accumulator_max: int = 0
    wraps: int = 0
    saturated: int = 0
    values: int = 0


@dataclass
class Watch:
    """Collects an `OpWatch` per op name; pass one to `simulate` to observe, the results do not change."""

    ops: dict[str, OpWatch] = field(default_factory=dict)

    def of(self, op: str) -> OpWatch:
        """The record of one op, made on first use."""
        return self.ops.setdefault(op, OpWatch())

    def merge(self, other: Watch) -> None:
        """Take what another one has seen; in any order, all counts are exact."""
        for name, seen in other.ops.items():
            record = self.of(name)
            record.accumulator_max = max(record.accumulator_max, seen.accumulator_max)
            record.wraps += seen.wraps
            record.saturated += seen.saturated
            record.values += seen.values

    def accumulator(self, op: str, acc: NDArray[Any], bits: int) -> None:
        """Record accumulator values (any shape, int64) of an accumulator `bits` wide."""
        record = self.of(op)
        if acc.size == 0:
            return
        low, high = int(acc.min()), int(acc.max())
        record.accumulator_max = max(record.accumulator_max, -low, high)
        limit = 1 << (bits - 1)
        if low < -limit or high >= limit:
            record.wraps += int(np.count_nonzero((acc < -limit) | (acc >= limit)))

    def saturation(self, op: str, before: NDArray[Any], low: int, high: int) -> None:
        """Record how many values the storage range [low, high] clamps."""
        record = self.of(op)
        record.values += before.size
        record.saturated += int(np.count_nonzero((before < low) | (before > high)))
