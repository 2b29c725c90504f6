"""Exact placement: branch and bound over packings of items whose meetings are given, not derived from intervals.

Under slices a lifetime is an arc of a circle, so two items may meet at either end of the loop; the search therefore
works on the live sets of the steps alone. Every packing can be pushed down until each item rests on 0 or on another
one it meets. The search adds items in the order of their offsets, each as low as what lies below it allows, and turns
back where the live set of some step cannot fit above what is placed any more. When it ends without a packing and
without having run out of nodes, there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """offsets: a packing, or None. exhausted: with None, whether it is proven that there is none."""

    offsets: tuple[int, ...] | None
    exhausted: bool
    nodes: int


def pack(
    sizes: Sequence[int], live_sets: Sequence[frozenset[int]], capacity: int, alignment: int, max_nodes: int
) -> Outcome:
    """Offsets, multiples of `alignment`, for items of `sizes` bytes within `capacity`, looking at `max_nodes` nodes.

    live_sets: the items (by index) that are live together, step by step.
    """
    grains = [-(-size // alignment) for size in sizes]
    room = capacity // alignment
    # The topmost item need not fill its last unit.
    if any(size > capacity for size in sizes):
        return Outcome(None, True, 0)
    solid = frozenset(index for index, size in enumerate(sizes) if size)
    sets = _maximal([live & solid for live in live_sets])
    search = _Search(grains, sets, room + (1 if capacity % alignment else 0), max_nodes)
    found = search.run(sorted(solid))
    if found is None:
        return Outcome(None, search.nodes < max_nodes, search.nodes)
    offsets = tuple(found.get(index, 0) * alignment for index in range(len(sizes)))
    if any(offset + size > capacity for offset, size in zip(offsets, sizes, strict=True)):
        return Outcome(None, False, search.nodes)
    return Outcome(offsets, False, search.nodes)


def _maximal(sets: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    distinct = sorted(set(sets), key=lambda live: -len(live))
    kept: list[frozenset[int]] = []
    for live in distinct:
        if not any(live <= other for other in kept):
            kept.append(live)
    return kept


class _Search:
    """Depth first, with an explicit stack: a network has more items than Python has frames."""

    def __init__(self, sizes: list[int], sets: list[frozenset[int]], room: int, max_nodes: int) -> None:
        self.sizes, self.sets, self.room, self.max_nodes = sizes, sets, room, max_nodes
        self.nodes = 0
        self.meets: list[set[int]] = [set() for _ in sizes]
        for live in sets:
            for index in live:
                self.meets[index] |= live - {index}
        pressure = [sum(sizes[i] for i in live) for live in sets]
        worst = [0] * len(sizes)
        for total, live in zip(pressure, sets, strict=True):
            for index in live:
                worst[index] = max(worst[index], total)
        order = sorted(range(len(sizes)), key=lambda i: (-worst[i], -sizes[i] * (len(self.meets[i]) + 1), i))
        self.rank = {index: rank for rank, index in enumerate(order)}

    def run(self, items: list[int]) -> dict[int, int] | None:
        """Offsets in units by item, or None."""
        placed: list[tuple[int, int]] = []
        lowest = dict.fromkeys(items, 0)
        first = self._candidates(lowest, (-1, -1))
        stack: list[tuple[dict[int, int], list[int]]] = [(lowest, first)] if first is not None else []
        if not items:
            return {}
        while stack:
            lowest, candidates = stack[-1]
            if not candidates or self.nodes >= self.max_nodes:
                if self.nodes >= self.max_nodes:
                    return None
                stack.pop()
                if placed:
                    placed.pop()
                continue
            index = candidates.pop()
            offset = lowest[index]
            self.nodes += 1
            if len(lowest) == 1:
                return dict([*placed, (index, offset)])
            end = offset + self.sizes[index]
            meets = self.meets[index]
            raised = {k: max(v, end) if k in meets else v for k, v in lowest.items() if k != index}
            children = self._candidates(raised, (offset, self.rank[index]))
            if children is not None:
                placed.append((index, offset))
                stack.append((raised, children))
        return None

    def _candidates(self, lowest: dict[int, int], last: tuple[int, int]) -> list[int] | None:
        """Items that may come next, the most promising last; None where no packing lies below this node."""
        floor = max(last[0], 0)
        sizes = self.sizes
        if any(max(offset, floor) + sizes[index] > self.room for index, offset in lowest.items()):
            return None
        for live in self.sets:
            waiting = [index for index in live if index in lowest]
            if waiting:
                base = max(min(lowest[index] for index in waiting), floor)
                if base + sum(sizes[index] for index in waiting) > self.room:
                    return None
        ready = []
        for index, offset in lowest.items():
            # Equal offsets are taken in the order of rank: the other orders are the same packing.
            if offset < last[0] or (offset == last[0] and self.rank[index] < last[1]):
                continue
            # Who fits entirely below this item's offset, meeting it, comes before it.
            if any(k in lowest and lowest[k] + sizes[k] <= offset for k in self.meets[index]):
                continue
            ready.append(index)
        ready.sort(key=lambda index: (lowest[index], self.rank[index]), reverse=True)
        return ready
