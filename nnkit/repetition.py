"""Sequences that repeat within a list, so that a message says them once with a count."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")
_LONGEST = 16
"""Entries of the longest sequence that is looked for."""
_LEAST = 4
"""How often a sequence has to follow itself."""


@dataclass(frozen=True)
class Run(Generic[ItemT]):
    """A part of a list: a sequence that follows itself `times`. items: the first such sequence."""

    items: tuple[ItemT, ...]
    times: int


def runs(items: Sequence[ItemT], kind: Callable[[ItemT], Hashable]) -> list[Run[ItemT]]:
    """The list as runs, in order; entries of one kind are alike. What does not repeat are runs of 1."""
    kinds = [kind(each) for each in items]
    result: list[Run[ItemT]] = []
    at = 0
    while at < len(items):
        longest = max((len(items) - at) // _LEAST, 1)
        best = (1, 1)
        for period in range(1, min(longest, _LONGEST) + 1):
            times = _times(kinds, at, period)
            if times >= _LEAST and times * period > best[0] * best[1]:
                best = (period, times)
        period, times = best
        result.append(Run(tuple(items[at : at + period]), times))
        at += period * times
    return result


def _times(kinds: Sequence[Hashable], at: int, period: int) -> int:
    """How often the sequence of `period` entries from `at` on follows itself."""
    end = at + period
    while end < len(kinds) and kinds[end] == kinds[end - period]:
        end += 1
    return (end - at) // period
