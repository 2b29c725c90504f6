"""Branch and bound by the compiled kernels of the extra `[solver]`: thousands of times the nodes of `search`.

Several orders take turns, each with a growing share of placements: which one goes straight down differs by instance.
What one order refuted the others skip.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.memory.packing import Packing
from nnkit.memory.search import Outcome

Numbers = NDArray[np.int64]

FIRST_SHARE = 4000
"""Placements of each order's first turn; doubled after every round."""


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


def is_installed() -> bool:
    """Whether the extra's compiler can be imported."""
    return importlib.util.find_spec("numba") is not None


def fit_within(packing: Packing, capacity_bytes: int, max_nodes: int, orders: tuple[Order, ...] = ORDERS) -> Outcome:
    """Search for a packing whose peak is at most `capacity_bytes` with at most `max_nodes` placements.

    Deterministic. The answer, where there is one, is that of `search.fit_within`; the offsets may differ.

    Raises:
        ImportError: the extra `[solver]` is not installed.
    """
    from nnkit.memory import kernels_numba as kernels

    result_offsets = [item.fixed_offset_bytes or 0 for item in packing.items]
    job = _Job.of(packing)
    count = len(job.members)
    if not count:
        return Outcome(result_offsets, False, 0)
    if not job.may_fit(capacity_bytes):
        return Outcome(None, True, 0)
    pool = np.zeros(count * (count + 3), dtype=np.int64)
    trail = np.zeros((2, count * count + 1), dtype=np.int64)
    section = np.zeros((2, len(job.slack) + 1), dtype=np.int64)
    dead = kernels.empty_dead_ends()
    ranks = [job.ranks(order) for order in orders]
    offsets = np.zeros(count, dtype=np.int64)
    nodes = 0
    for begin, end in job.groups():
        share, turn, answer = FIRST_SHARE, 0, -1
        while answer < 0 and nodes < max_nodes:
            state = np.array([0, min(share, max_nodes - nodes), 0], dtype=np.int64)
            pool[:count] = np.arange(count)
            rank, tie = ranks[turn]
            answer = kernels.place_group(
                begin, end, count, -1, -1, capacity_bytes, pool, job.size, job.rounded, job.slack, job.align,
                job.fixed, job.first, job.stop, rank, tie, job.lowest.copy(), offsets, section[0], section[1],
                trail[0], trail[1], dead, state,
            )  # fmt: skip
            nodes += int(state[0])
            turn = (turn + 1) % len(ranks)
            share *= 2 if turn == 0 else 1
        if answer <= 0:
            return Outcome(None, answer == 0, nodes)
    for k, index in enumerate(job.members):
        result_offsets[index] = int(offsets[k])
    return Outcome(result_offsets, False, nodes)


@dataclass(frozen=True, eq=False)
class _Job:
    """A packing as arrays: items of some size in order of time, their sections as ranges first..stop-1.

    rounded: sizes rounded up to the common grain of all offsets; all items of a section but the topmost take that.
    slack: per section, what the topmost may take less. lowest: where an item may start (its place, if fixed).
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
        return _Job(
            tuple(members), size, rounded, slack, align, fixed, lowest, last_step - first_step + 1, first, stop
        )

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

    def ranks(self, order: Order) -> tuple[Numbers, Numbers]:
        """(rank of each member, rank among those with the same T, or [-1] where ranks are not made anew)."""
        totals = self.section_bytes(self.size)
        fullest = np.array([totals[a:b].max() for a, b in zip(self.first, self.stop, strict=True)], dtype=np.int64)
        keys = {
            "T": fullest,
            "A": self.size * self.length,
            "W": self.length,
            "Z": self.size,
            "M": self.stop - self.first,
        }

        def rank(letters: str) -> Numbers:
            by = np.lexsort((np.arange(len(self.size)), *(-keys[letter] for letter in reversed(letters))))
            ranks = np.empty(len(self.size), dtype=np.int64)
            ranks[by] = np.arange(len(self.size))
            return ranks

        never = np.full(1, -1, dtype=np.int64)
        return rank(order.keys), rank(order.keys[1:]) if order.anew else never
