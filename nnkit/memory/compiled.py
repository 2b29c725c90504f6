"""Branch and bound by the compiled kernels of the extra `[solver]`: thousands of times the nodes of `search`.

Several orders take turns: which one goes straight down differs by instance. From the second round on they are
disturbed by seeded noise, and the lengths of the turns follow Luby's sequence: an order solves most instances within
a few thousand placements or not for a very long time. What one order refuted the others skip.
"""

from __future__ import annotations

import importlib.util
import os
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.memory.packing import Packing
from nnkit.memory.search import Outcome

Numbers = NDArray[np.int64]

FIRST_SHARE = 4000
"""Placements of each order's first turn; doubled after every round."""


NOISE = 0.25
"""Relative noise on sizes and lifetimes from the second round on: the search has a heavy tail, restarts cut it."""


@dataclass(frozen=True)
class Order:
    """Which of two items with the same lowest offset is tried first: larger values of `keys`, letter by letter.

    keys: T total of the item's fullest section, W steps it lives, A size x W, Z size, M sections it spans (the
        letters are MiniMalloc's, but for M).
    anew: T counts what is left to place, made anew wherever the items fall apart in time. Needs T first.
    """

    keys: str
    anew: bool = False


ORDERS = (
    Order("TWA", anew=True),
    Order("TMA"),
    Order("AWT"),
    Order("TWA"),
    Order("TMA", anew=True),
    Order("WAT"),
    Order("TAW", anew=True),
)


def luby(turn: int) -> int:
    """1, 1, 2, 1, 1, 2, 4, 1, ... : the lengths of runs for restarts (Luby, Sinclair, Zuckerman 1993)."""
    while turn & (turn + 1):
        turn -= (1 << (turn.bit_length() - 1)) - 1
    return (turn + 1) >> 1


def is_installed() -> bool:
    """Whether the extra's compiler can be imported."""
    return importlib.util.find_spec("numba") is not None


def applies(packing: Packing) -> bool:
    """Whether the kernels know all rules of `packing`: banks are left to `search`."""
    return not packing.bank_bytes


def fit_within(packing: Packing, capacity_bytes: int, max_nodes: int, orders: tuple[Order, ...] = ORDERS) -> Outcome:
    """Search for a packing whose peak is at most `capacity_bytes` with at most `max_nodes` placements.

    Deterministic. The answer, where there is one, is that of `search.fit_within`; the offsets may differ.

    Raises:
        ImportError: the extra `[solver]` is not installed.
    """
    return Search(packing, capacity_bytes, orders).advance(max_nodes)


class Search:
    """A search for one capacity that can be continued: `advance` goes on where it stopped."""

    def __init__(self, packing: Packing, capacity_bytes: int, orders: tuple[Order, ...] = ORDERS) -> None:
        self._packing = packing
        self._capacity = capacity_bytes
        self._job = job = _Job.of(packing)
        self._groups = job.groups() if job.members else []
        self._group = 0
        self._turn = 0
        self._orders = orders
        self._refuted = bool(job.members) and not job.may_fit(capacity_bytes)
        self._ranks: list[tuple[Numbers, Numbers]] = []
        self._offsets = np.zeros(len(job.members), dtype=np.int64)
        self._dead: Numbers | None = None

    def advance(self, max_nodes: int) -> Outcome:
        """Go on with at most `max_nodes` placements; the outcome's nodes are those of this call."""
        kernels = _kernels()
        job, count = self._job, len(self._job.members)
        if self._dead is None:
            self._dead = kernels.empty_dead_ends()
        pool = np.zeros(count * (count + 3), dtype=np.int64)
        trail = np.zeros((2, count * count + 1), dtype=np.int64)
        section = np.zeros((2, len(job.slack) + 1), dtype=np.int64)
        nodes = 0
        while not self._refuted and self._group < len(self._groups):
            if nodes >= max_nodes:
                return Outcome(None, False, nodes)
            begin, end = self._groups[self._group]
            turn_round, which = divmod(self._turn, len(self._orders))
            if which == 0:
                self._ranks = [job.ranks(order, turn_round) for order in self._orders]
            share = FIRST_SHARE * luby(turn_round + 1)
            state = np.array([0, min(share, max_nodes - nodes), 0], dtype=np.int64)
            pool[:count] = np.arange(count)
            rank, tie = self._ranks[which]
            facts = kernels.Facts(
                self._capacity, job.size, job.rounded, job.slack, job.align, job.fixed, job.first, job.stop, tie,
                job.reach,
            )  # fmt: skip
            work = kernels.Work(
                pool, job.lowest.copy(), self._offsets, section[0], section[1], trail[0], trail[1], self._dead, state
            )
            answer = kernels.place_group(begin, end, count, -1, -1, rank, facts, work)
            nodes += int(state[0])
            self._refuted = answer == 0
            if answer == 1:
                self._group += 1
                self._turn = 0
            else:
                self._turn += 1
        if self._refuted:
            return Outcome(None, True, nodes)
        offsets = [item.fixed_offset_bytes or 0 for item in self._packing.items]
        for k, index in enumerate(job.members):
            offsets[index] = int(self._offsets[k])
        return Outcome(offsets, False, nodes)


@cache
def _kernels() -> Any:
    """The module of the kernels, which compiles them."""
    leave_out_settings()
    from nnkit.memory import kernels_numba

    return kernels_numba


def leave_out_settings() -> None:
    """numba reads settings in the current folder, when it is imported and whenever it compiles. They may name folders
    of machine code and modules to import, and whose they are is not known: it finds none."""
    with chdir(os.sep):
        from numba.core import config
    config._config_fname = os.devnull


@dataclass(frozen=True, eq=False)
class _Job:
    """A packing as arrays: items of some size in order of time, their sections as ranges first..stop-1.

    rounded: sizes rounded up to the common grain of all offsets; all items of a section but the topmost take that.
    slack: per section, what the topmost may take less, and what diagonal overlaps may save.
    lowest: where an item may start (its place, if fixed). reach: from an item's start to the least start above it.
    """

    members: tuple[int, ...]
    size: Numbers
    rounded: Numbers
    slack: Numbers
    align: Numbers
    fixed: Numbers
    lowest: Numbers
    length: Numbers
    first: Numbers
    stop: Numbers
    reach: Numbers

    @staticmethod
    def of(packing: Packing) -> _Job:
        items = packing.items
        members = sorted(
            (i for i in range(len(items)) if items[i].size_bytes),
            key=lambda i: (items[i].first_step, items[i].last_step, i),
        )
        chosen = [items[i] for i in members]
        steps = np.array(packing.section_steps, dtype=np.int64)
        size = np.array([item.size_bytes for item in chosen], dtype=np.int64)
        align = np.array([item.alignment_bytes for item in chosen], dtype=np.int64)
        fixed = np.array([item.fixed_offset_bytes is not None for item in chosen], dtype=np.int64)
        lowest = np.array([item.fixed_offset_bytes or 0 for item in chosen], dtype=np.int64)
        first_step = np.array([item.first_step for item in chosen], dtype=np.int64)
        last_step = np.array([item.last_step for item in chosen], dtype=np.int64)
        first = np.searchsorted(steps, first_step).astype(np.int64)
        stop = np.searchsorted(steps, last_step, side="right").astype(np.int64)
        grain = int(np.gcd.reduce(np.concatenate([align, lowest]))) if members else 1
        rounded = -(-size // grain) * grain
        slack = np.zeros(len(steps), dtype=np.int64)
        for a, b, spare in zip(first, stop, rounded - size, strict=True):
            slack[a:b] = np.maximum(slack[a:b], spare)
        slack += np.array(packing.section_savings(grain), dtype=np.int64)
        reach = np.repeat(size[:, None], len(members), axis=1)
        local = {index: k for k, index in enumerate(members)}
        for (lower, upper), distance in packing.reach.items():
            reach[local[lower], local[upper]] = distance
        length = last_step - first_step + 1
        return _Job(tuple(members), size, rounded, slack, align, fixed, lowest, length, first, stop, reach)

    def section_bytes(self, sizes: Numbers) -> Numbers:
        """Sum of `sizes` of each section's items."""
        change = np.zeros(len(self.slack) + 1, dtype=np.int64)
        np.add.at(change, self.first, sizes)
        np.add.at(change, self.stop, -sizes)
        return np.cumsum(change)[:-1]

    def may_fit(self, capacity_bytes: int) -> bool:
        """Whether no bound refutes the capacity before anything is placed."""
        alone = int((self.lowest + self.size).max())
        together = int((self.section_bytes(self.rounded) - self.slack).max())
        return max(alone, together) <= capacity_bytes

    def groups(self) -> list[tuple[int, int]]:
        """Ranges of members that share no step with others."""
        groups: list[tuple[int, int]] = []
        begin, until = 0, int(self.stop[0])
        for k in range(1, len(self.first)):
            if self.first[k] >= until:
                groups.append((begin, k))
                begin = k
            until = max(until, int(self.stop[k]))
        return [*groups, (begin, len(self.first))]

    def ranks(self, order: Order, seed: int = 0) -> tuple[Numbers, Numbers]:
        """(rank of each member, rank among those with the same T, or [-1] where ranks are not made anew).

        With a seed above 0, sizes and lifetimes count up to NOISE more or less.
        """
        totals = self.section_bytes(self.size)
        fullest = np.array([totals[a:b].max() for a, b in zip(self.first, self.stop, strict=True)], dtype=np.int64)
        keys = {
            "T": fullest,
            "A": self.size * self.length,
            "W": self.length,
            "Z": self.size,
            "M": self.stop - self.first,
        }

        if seed:
            draw = np.random.default_rng(seed)
            for letter in "AWZM":
                factor = 1.0 + NOISE * (2.0 * draw.random(len(self.size)) - 1.0)
                keys[letter] = (1000.0 * factor * keys[letter]).astype(np.int64)

        def rank(letters: str) -> Numbers:
            by = np.lexsort((np.arange(len(self.size)), *(-keys[letter] for letter in reversed(letters))))
            ranks = np.empty(len(self.size), dtype=np.int64)
            ranks[by] = np.arange(len(self.size))
            return ranks

        never = np.full(1, -1, dtype=np.int64)
        return rank(order.keys), rank(order.keys[1:]) if order.anew else never
