"""Formats while they are being settled: ranges of values, and groups of values that share one format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnkit.errors import InternalError
from nnkit.program import Fixed


@dataclass
class Group:
    """Values of one format while it is being settled; `frac` only ever decreases."""

    members: list[str]
    low: float
    high: float
    bits: int
    signed: bool
    frac: int
    fixed_frac: bool = False

    @property
    def format(self) -> Fixed:
        """The format as settled so far."""
        return Fixed(self.bits, self.frac, self.signed)


@dataclass(frozen=True)
class Range:
    """Real range of one value with headroom and structural bounds applied.

    cut: whether the top may be cut by one step, as that of a sigmoid, which only ever comes near it.
    """

    low: float
    high: float
    non_negative: bool
    cut: bool = False

    def top(self, steps: int) -> float:
        """What the largest of so many steps above zero has to hold."""
        return self.high * (1.0 - 1.0 / steps) if self.cut else self.high


class FormatTable:
    """Groups by value name."""

    def __init__(self, groups: dict[str, Group], ranges: Mapping[str, Range]) -> None:
        self._groups = groups
        self._ranges = ranges

    def group(self, value: str) -> Group:
        """The group of a value."""
        return self._groups[value]

    def format(self, value: str) -> Fixed:
        """The format of a value."""
        return self._groups[value].format

    def integer_range(self, value: str) -> tuple[int, int]:
        """The integers that clipping to the value's range with headroom allows."""
        form, reach = self.format(value), self._ranges[value]
        low = max(form.qmin, form.quantize_scalar(reach.low))
        high = min(form.qmax, form.quantize_scalar(reach.high))
        return min(low, 0), max(high, 0)

    def with_ranges(self, ranges: Mapping[str, Range]) -> FormatTable:
        """The same formats, other ranges; `ranges` is not copied."""
        return FormatTable(self._groups, ranges)

    def lower_frac(self, value: str, frac: int) -> bool:
        """Make a group's format coarser. Returns whether anything changed."""
        group = self._groups[value]
        if frac >= group.frac:
            return False
        if group.fixed_frac:
            raise InternalError(f"format of {value!r} is fixed at {group.format} and cannot hold frac {frac}")
        group.frac = frac
        return True
