"""Which values of a segment share bytes: results in place of what is read for the last time, parts of concatenations.

A part that is written where the concatenation wants it makes the whole concatenation live from its first part on.
That can cost more than a copy (a skip connection across a deep network), so each concatenation is weighed by the peak
it leads to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Life:
    """An inner value: its size and the calls that first and last touch it, both included."""

    count: int
    first_step: int
    last_step: int


@dataclass(frozen=True)
class Wish:
    """`inner` wants to lie `offset` values into `outer`.

    step: of the call that would read one and write the other. over: it is to be overwritten by that call; otherwise
    it is a part of a concatenation. beside: what the call reads beside it, which must lie elsewhere.
    """

    inner: str
    outer: str
    offset: int
    step: int
    over: bool
    beside: tuple[str, ...] = ()


@dataclass(eq=False)
class _Group:
    """Values inside one another. first_step, last_step: of them all; of none that lives, the last lies before the
    first."""

    names: list[str]
    first_step: float = math.inf
    last_step: float = -math.inf


class _Groups:
    """Values inside one another, granted one by one."""

    def __init__(self, lives: Mapping[str, Life]) -> None:
        self._lives = lives
        self.parents: dict[str, Wish] = {}
        self._outers: set[str] = set()
        self._group_of: dict[str, _Group] = {}

    def grant(self, wish: Wish) -> bool:
        """Whether the wish can hold beside those that were granted; if so it does from now on."""
        inner, outer = self._group(wish.inner), self._group(wish.outer)
        if wish.inner in self.parents or outer is inner:
            return False
        if wish.over:
            # Somebody still reads what would be overwritten, or another operand already lends its bytes.
            if inner.last_step > wish.step or wish.outer in self._outers:
                return False
            if any(self._group(name) is inner for name in wish.beside):
                return False
        self.parents[wish.inner] = wish
        self._outers.add(wish.outer)
        self._merge(inner, outer)
        return True

    def peak(self) -> int:
        """The most values that live at one step."""
        change: dict[float, int] = {}
        for name, life in self._lives.items():
            if name not in self.parents:
                group = self._group(name)
                change[group.first_step] = change.get(group.first_step, 0) + life.count
                change[group.last_step + 1] = change.get(group.last_step + 1, 0) - life.count
        live = most = 0
        for step in sorted(change):
            live += change[step]
            most = max(most, live)
        return most

    def _group(self, name: str) -> _Group:
        group = self._group_of.get(name)
        if group is None:
            life = self._lives.get(name)
            group = _Group([name]) if life is None else _Group([name], life.first_step, life.last_step)
            self._group_of[name] = group
        return group

    def _merge(self, inner: _Group, outer: _Group) -> None:
        """The smaller one is renamed, so that a chain of values in place of each other costs little more than its
        length."""
        small, large = sorted((inner, outer), key=lambda group: len(group.names))
        large.names += small.names
        large.first_step = min(inner.first_step, outer.first_step)
        large.last_step = max(inner.last_step, outer.last_step)
        for name in small.names:
            self._group_of[name] = large


def granted(lives: Mapping[str, Life], wishes: Sequence[Wish]) -> tuple[Wish, ...]:
    """The wishes that are to hold, in the order of the calls.

    wishes: in that order. All parts of a concatenation are given up together, where that lowers the peak.
    """
    given_up: frozenset[str] = frozenset()
    best = _build(lives, wishes, given_up)
    for whole in dict.fromkeys(wish.outer for wish in wishes if not wish.over):
        trial = _build(lives, wishes, given_up | {whole})
        if trial.peak() < best.peak():
            best, given_up = trial, given_up | {whole}
    return tuple(best.parents.values())


def _build(lives: Mapping[str, Life], wishes: Sequence[Wish], given_up: frozenset[str]) -> _Groups:
    groups = _Groups(lives)
    for wish in wishes:
        if wish.over or wish.outer not in given_up:
            groups.grant(wish)
    return groups
