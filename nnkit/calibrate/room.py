"""Room in a range for numbers that calibration did not see, where it saw few.

The largest of n numbers says little where n is small: the next one lies beyond it, and is clipped, with a probability
of 1 / (n + 1). For numbers of a normal distribution the squared error of eight bits is least where the range ends at
3.9 standard deviations, which is about the largest of 10,000 numbers, and the largest of n grows with the square root
of ln(2 n). So what n numbers span is made wider by sqrt(ln(2 * 10,000) / ln(2 n)); what 10,000 or more span stays as
it is. No range goes beyond what its layer can give at all (`nnkit.calibrate.limits`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nnkit.calibrate.ranges import max_range
from nnkit.calibrate.stats import CalibrationStats, Limits, ValueRange

ROOM_FOR_UNSEEN = "room_for_unseen"
"""Its name in a recipe's `calibration.corrections`."""

ENOUGH = 10_000
"""Numbers; what so many span is left as it is."""

_FEWEST = 2  # a single number says nothing of how far others go


@dataclass(frozen=True)
class Widened:
    """A value whose range got room. numbers: of it, that were seen. factor: by which what they span is wider."""

    name: str
    numbers: int
    factor: float


def room_factor(numbers: int) -> float:
    """By how much the range of so many numbers is made wider; 1 for 10,000 and more."""
    return max(1.0, math.sqrt(math.log(2 * ENOUGH) / math.log(2 * max(numbers, _FEWEST))))


def with_room(statistics: CalibrationStats, room: Mapping[str, Limits]) -> CalibrationStats:
    """The statistics with room in the ranges of these values, and in those that methods make of them from now on.

    Values without a histogram, of which it is not known how many numbers were seen, stay as they are.
    """
    made = replace(statistics, room=room)
    ranges = {
        name: each if name in made.tuned else given_room(made, name, each) for name, each in made.ranges.items()
    }
    return replace(made, ranges=ranges)


def given_room(statistics: CalibrationStats, name: str, value_range: ValueRange) -> ValueRange:
    """The range of a value with the room that it gets; as it is where it gets none."""
    histogram, limits = statistics.histograms.get(name), statistics.room.get(name)
    if histogram is None or limits is None:
        return value_range
    factor = room_factor(histogram.extremes.count)
    low = max(value_range.low * factor, limits.low) if value_range.low < 0.0 else value_range.low
    high = min(value_range.high * factor, limits.high) if value_range.high > 0.0 else value_range.high
    return replace(value_range, low=min(low, value_range.low), high=max(high, value_range.high))


def widened_values(statistics: CalibrationStats) -> list[Widened]:
    """The values whose ranges got room, those with the most first."""
    widened = []
    for name in statistics.room:
        histogram = statistics.histograms.get(name)
        if histogram is None:
            continue
        seen = max_range(histogram.extremes)
        factor = given_room(statistics, name, seen).max_abs / seen.max_abs if seen.max_abs else 1.0
        if factor > 1.0:
            widened.append(Widened(name, histogram.extremes.count, factor))
    return sorted(widened, key=lambda each: (-each.factor, each.name))
