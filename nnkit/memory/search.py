"""Branch and bound: is there a packing within a given capacity?

Every packing can be pushed down until each item rests on another one or on 0. Items are therefore placed in the
order of their final offsets, each at the lowest offset above its placed neighbours; the search is over that order.
It prunes where

* a section (a step's live set) cannot hold its remaining items above its lowest remaining offset;
* an item's own lowest offset leaves no room for it;
* the offsets would decrease, or equal offsets come out of index order (the same packing, reached twice);
* another item that meets this one fits entirely below it: then this one is not next in a pushed-down packing.

Rules of banks and diagonal overlaps keep the shape "an upper item starts no lower than a function of the lower one
that never falls"; the pruning by what fits below counts an item with bank conflicts up to the end of its last bank.

The idea of searching pushed-down orders with section bounds is that of MiniMalloc (Moffitt, ASPLOS 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.memory.packing import Packing, align_up

_FAR = np.int64(1) << 60


@dataclass(frozen=True)
class Outcome:
    """offsets: a packing within the capacity, or None. exhausted: with None, whether there is none at all."""

    offsets: list[int] | None
    exhausted: bool
    nodes: int


def fit_within(packing: Packing, capacity_bytes: int, max_nodes: int) -> Outcome:
    """Search for a packing whose peak is at most `capacity_bytes`, looking at no more than `max_nodes` nodes.

    Items that never meet, not even through others, are searched apart. Deterministic.
    """
    offsets = [item.fixed_offset_bytes or 0 for item in packing.items]
    nodes = 0
    for members in _components(packing):
        part = _Part(packing, members, capacity_bytes)
        placed: dict[int, int] | None = None
        refuted = False
        # Several static orders, each given a share of the nodes: which one goes straight down differs by instance.
        budget = max(50, 2 * len(members))
        rank = 0
        while placed is None and not refuted and nodes < max_nodes:
            placed, refuted, used = part.search(rank % len(part.ranks), min(budget, max_nodes - nodes))
            nodes += used
            rank += 1
            if rank % len(part.ranks) == 0:
                budget *= 3
        if placed is None:
            return Outcome(None, refuted, nodes)
        for index, offset in placed.items():
            offsets[index] = offset
    return Outcome(offsets, False, nodes)


def _components(packing: Packing) -> list[list[int]]:
    """Groups of items connected by meeting in time, in order of time; items of size 0 are in none."""
    order = sorted(range(len(packing.items)), key=lambda i: (packing.items[i].first_step, i))
    groups: list[list[int]] = []
    end = -1
    for index in order:
        item = packing.items[index]
        if item.size_bytes == 0:
            continue
        if not groups or item.first_step > end:
            groups.append([])
            end = item.last_step
        groups[-1].append(index)
        end = max(end, item.last_step)
    return groups


class _Rows:
    """Rows of indices, all behind one another: least values and sums by row take as long as there are indices.

    Each row ends in an index of its own, `count`, that stands for no item, so that none is empty.
    """

    def __init__(self, rows: Sequence[Sequence[int]], count: int) -> None:
        self._indices = np.array([i for row in rows for i in (*row, count)], dtype=np.int64)
        lengths = [len(row) + 1 for row in rows]
        self._starts = np.cumsum([0, *lengths[:-1]], dtype=np.int64) if rows else np.zeros(0, np.int64)

    def least(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The smallest value of each row, `_FAR` where there is none."""
        least: NDArray[np.int64] = np.minimum.reduceat(np.append(values, _FAR)[self._indices], self._starts)
        return least

    def sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of each row."""
        sums: NDArray[np.int64] = np.add.reduceat(np.append(values, 0)[self._indices], self._starts)
        return sums


class _Part:
    """One connected group as arrays. Index k is the k-th member."""

    def __init__(self, packing: Packing, members: list[int], capacity: int) -> None:
        local = {index: k for k, index in enumerate(members)}
        self.members = members
        self.capacity = capacity
        items = [packing.items[i] for i in members]
        self.size = np.array([item.size_bytes for item in items], dtype=np.int64)
        self.align = np.array([item.alignment_bytes for item in items], dtype=np.int64)
        self.fixed = np.array(
            [-1 if item.fixed_offset_bytes is None else item.fixed_offset_bytes for item in items], dtype=np.int64
        )
        self.is_fixed = self.fixed >= 0
        self.any_fixed = bool(self.is_fixed.any())
        count = len(members)
        self.meets = np.zeros((count, count), dtype=bool)
        for k, index in enumerate(members):
            self.meets[k, [local[j] for j in packing.neighbours[index]]] = True
        self.neighbours = _Rows([[local[j] for j in packing.neighbours[index]] for index in members], count)
        sections = [[local[i] for i in s] for s in packing.sections if s and s[0] in local]
        self.sections = np.zeros((len(sections), count), dtype=bool)
        for row, section in enumerate(sections):
            self.sections[row, section] = True
        self.live = _Rows(sections, count)
        self.grain = int(np.gcd.reduce(np.concatenate([self.align, self.fixed[self.is_fixed]])))
        # All but the topmost item of a section take their size rounded up; the slack of the topmost is bounded.
        self.rounded = -(-self.size // self.grain) * self.grain
        slack = self.rounded - self.size
        self.section_slack = np.array([int(slack[s].max()) for s in self.sections], dtype=np.int64)
        for row, saved in enumerate(
            saved
            for members_of, saved in zip(packing.sections, packing.section_savings(self.grain), strict=True)
            if members_of and members_of[0] in local
        ):
            self.section_slack[row] += saved
        self.reach = np.repeat(self.size[:, None], count, axis=1)
        for (lower, upper), distance in packing.reach.items():
            if lower in local:
                self.reach[local[lower], local[upper]] = distance
        self.bank = packing.bank_bytes
        self.within = np.array([item.within_bank for item in items], dtype=bool)
        self.conflict = np.zeros((count, count), dtype=bool)
        for i, j in packing.conflicts:
            if i in local and j in local:
                self.conflict[local[i], local[j]] = True
        self.any_conflict: NDArray[np.bool_] = np.any(self.conflict, axis=1)
        length = np.array([item.last_step - item.first_step + 1 for item in items], dtype=np.int64)
        pressure = np.array([int(self.rounded @ s) for s in self.sections], dtype=np.int64)
        worst = np.array([int(pressure[self.sections[:, k]].max()) for k in range(count)], dtype=np.int64)
        keys = np.arange(count)
        orders = (
            np.lexsort((keys, -self.size, -self.size * length, -worst)),
            np.lexsort((keys, -self.size, -length)),
            np.lexsort((keys, -length, -self.size)),
            np.lexsort((keys, -self.size * length)),
        )
        self.ranks = [np.argsort(order) for order in orders]

    def search(self, rank_index: int, max_nodes: int) -> tuple[dict[int, int] | None, bool, int]:
        """(offsets by item or None, whether refuted, nodes)."""
        rank = self.ranks[rank_index]
        count = len(self.members)
        start = np.where(self.is_fixed, self.fixed, 0)
        remaining = np.ones(count, dtype=bool)
        placed: list[tuple[int, int]] = []
        nodes = 0
        first = self._candidates(start, remaining, rank, (-1, -1))
        if first is None:
            return None, True, 1
        stack: list[tuple[NDArray[np.int64], list[int]]] = [(start, first)]
        while stack:
            if nodes >= max_nodes:
                return None, False, nodes
            lowest, candidates = stack[-1]
            if not candidates:
                stack.pop()
                if placed:
                    remaining[placed.pop()[0]] = True
                continue
            k = candidates.pop()
            offset = int(lowest[k])
            nodes += 1
            remaining[k] = False
            placed.append((k, offset))
            if len(placed) == count:
                return {self.members[i]: o for i, o in placed}, False, nodes
            raised = self._raise(lowest, remaining, k, offset)
            children = None if raised is None else self._candidates(raised, remaining, rank, (offset, int(rank[k])))
            if raised is None or children is None:
                placed.pop()
                remaining[k] = True
                continue
            stack.append((raised, children))
        return None, True, nodes

    def _raise(
        self, lowest: NDArray[np.int64], remaining: NDArray[np.bool_], k: int, offset: int
    ) -> NDArray[np.int64] | None:
        """The remaining items' lowest offsets once `k` is placed; None where a fixed item is overrun."""
        ends = offset + self.reach[k]
        if self.any_conflict[k]:
            bank_end = align_up(offset + int(self.size[k]), self.bank)
            ends = np.where(self.conflict[k], np.maximum(ends, bank_end), ends)
        above = self._settle(ends)
        touched = self.meets[k] & remaining
        if self.any_fixed:
            if bool((touched & self.is_fixed & (lowest < ends)).any()):
                return None
            touched &= ~self.is_fixed
        return np.where(touched, np.maximum(lowest, above), lowest)

    def _settle(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The least offsets from `offsets` on that suit the members' alignments and banks."""
        settled = -(-offsets // self.align) * self.align
        if not self.bank:
            return settled
        across = self.within & (settled % self.bank + self.size > self.bank)
        return np.where(across, -(-settled // self.bank) * self.bank, settled)

    def _candidates(
        self, lowest: NDArray[np.int64], remaining: NDArray[np.bool_], rank: NDArray[np.int64], last: tuple[int, int]
    ) -> list[int] | None:
        """Items that may come next, best last; None where the node cannot lead to a packing."""
        # Offsets never decrease from here on.
        floor = self._settle(np.full(len(self.members), max(last[0], 0), dtype=np.int64))
        reachable = np.where(self.is_fixed, lowest, np.maximum(lowest, floor))
        if bool((remaining & (reachable + self.size > self.capacity)).any()):
            return None
        if bool((remaining & self.is_fixed & (lowest < last[0])).any()):
            return None
        masked = np.where(remaining, reachable, _FAR)
        section_floor = self.live.least(masked)
        need = self.live.sums(np.where(remaining, self.rounded, 0))
        if bool(((section_floor + need - self.section_slack > self.capacity) & (section_floor < _FAR)).any()):
            return None
        # Whoever fits below k's lowest offset, meeting it, comes before k.
        ends = lowest + self.size
        if self.bank:
            ends = np.where(self.any_conflict, -(-ends // self.bank) * self.bank, ends)
        ends = np.where(remaining, ends, _FAR)
        lowest_end = self.neighbours.least(ends)
        later = (lowest > last[0]) | ((lowest == last[0]) & (rank > last[1]))
        ready = np.flatnonzero(remaining & later & (lowest_end > lowest))
        return sorted((int(k) for k in ready), key=lambda k: (int(lowest[k]), int(rank[k])), reverse=True)
