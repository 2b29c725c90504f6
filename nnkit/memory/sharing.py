"""Which values of a segment share bytes: results in place of what is read for the last time, parts of concatenations.

A part that is written where the concatenation wants it makes the whole concatenation live from its first part on.
That can cost more than a copy (a skip connection across a deep network), so each concatenation is weighed by the peak
it leads to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


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
class _Groups:
    """Values inside one another, granted one by one."""

    lives: Mapping[str, Life]
    parents: dict[str, Wish] = field(default_factory=dict)

    def root(self, name: str) -> str:
        while name in self.parents:
            name = self.parents[name].outer
        return name

    def members(self, name: str) -> list[str]:
        root = self.root(name)
        return [each for each in self.lives if self.root(each) == root]

    def grant(self, wish: Wish) -> bool:
        """Whether the wish can hold beside those that were granted; if so it does from now on."""
        if wish.inner in self.parents or self.root(wish.outer) == wish.inner:
            return False
        if wish.over:
            # Somebody still reads what would be overwritten, or another operand already lends its bytes.
            if any(self.lives[name].last_step > wish.step for name in self.members(wish.inner)):
                return False
            if any(each.outer == wish.outer for each in self.parents.values()):
                return False
            if any(self.root(name) == wish.inner for name in wish.beside):
                return False
        self.parents[wish.inner] = wish
        return True

    def peak(self) -> int:
        """The most values that live at one step."""
        change: dict[int, int] = {}
        for name, life in self.lives.items():
            if name not in self.parents:
                group = [self.lives[each] for each in self.members(name)]
                start, end = min(each.first_step for each in group), max(each.last_step for each in group)
                change[start] = change.get(start, 0) + life.count
                change[end + 1] = change.get(end + 1, 0) - life.count
        live = most = 0
        for step in sorted(change):
            live += change[step]
            most = max(most, live)
        return most


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
