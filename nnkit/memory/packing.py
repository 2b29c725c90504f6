"""The allocator's problem in a form that its searches share: items, who overlaps whom in time, and the bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from nnkit.errors import InternalError


@dataclass(frozen=True)
class Item:
    """One buffer to place: `size_bytes` bytes live in steps first..last, both included.

    fixed_offset_bytes: the offset is given; the others go around it.
    """

    id: str
    size_bytes: int
    first_step: int
    last_step: int
    alignment_bytes: int = 1
    fixed_offset_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class Packing:
    """Items with their neighbours (those that share a step with them).

    sections: the live sets (indices) at the steps where they are largest by inclusion; every pair of neighbours
        meets in one of them. section_steps: a step of each.
    """

    items: tuple[Item, ...]
    neighbours: tuple[tuple[int, ...], ...]
    sections: tuple[tuple[int, ...], ...]
    section_steps: tuple[int, ...]

    @staticmethod
    def of(items: Sequence[Item]) -> Packing:
        """Prepare `items`. Raises InternalError for a repeated id, a negative size or a lifetime that ends early."""
        items = tuple(items)
        if len({item.id for item in items}) != len(items):
            raise InternalError("two items to place share an id")
        for item in items:
            if item.size_bytes < 0 or item.first_step > item.last_step or item.alignment_bytes < 1:
                raise InternalError("an item to place has a negative size, lifetime or alignment", where=item.id)
            if item.fixed_offset_bytes is not None and (
                item.fixed_offset_bytes < 0 or item.fixed_offset_bytes % item.alignment_bytes
            ):
                raise InternalError("an item's fixed offset is negative or not aligned", where=item.id)
        first = np.array([item.first_step for item in items], dtype=np.int64)
        last = np.array([item.last_step for item in items], dtype=np.int64)
        solid = np.array([item.size_bytes > 0 for item in items], dtype=bool)
        meet = (first[:, None] <= last[None, :]) & (first[None, :] <= last[:, None]) & solid[:, None] & solid[None, :]
        np.fill_diagonal(meet, False)
        neighbours = tuple(tuple(int(j) for j in np.flatnonzero(row)) for row in meet)
        # A live set is largest just before something dies after something was born.
        events = sorted({(item.first_step, 0) for item in items} | {(item.last_step, 1) for item in items})
        steps = [step for (step, is_end), before in zip(events[1:], events, strict=False) if is_end and not before[1]]
        sections = tuple(
            tuple(int(i) for i in np.flatnonzero((first <= step) & (step <= last) & solid)) for step in steps
        )
        return Packing(items, neighbours, sections, tuple(steps))

    def live_at(self, step: int) -> tuple[int, ...]:
        """Indices of the items live in `step`."""
        return tuple(i for i, item in enumerate(self.items) if item.first_step <= step <= item.last_step)

    def peak(self, offsets: Sequence[int]) -> int:
        """End of the highest item, bytes."""
        return max((o + item.size_bytes for o, item in zip(offsets, self.items, strict=True)), default=0)

    def check(self, offsets: Sequence[int]) -> None:
        """Raise InternalError unless `offsets` keep neighbours apart, are aligned and honour the fixed ones."""
        for i, item in enumerate(self.items):
            if offsets[i] < 0 or offsets[i] % item.alignment_bytes:
                raise InternalError("the allocator placed an item badly aligned", where=item.id)
            if item.fixed_offset_bytes is not None and offsets[i] != item.fixed_offset_bytes:
                raise InternalError("the allocator moved a fixed item", where=item.id)
            for j in self.neighbours[i]:
                apart = (
                    offsets[i] + item.size_bytes <= offsets[j] or offsets[j] + self.items[j].size_bytes <= offsets[i]
                )
                if not apart:
                    raise InternalError(f"the allocator let {item.id!r} overlap {self.items[j].id!r}")


def align_up(value: int, alignment: int) -> int:
    """The least multiple of `alignment` that is not below `value`."""
    return -(-value // alignment) * alignment


def max_live(packing: Packing) -> tuple[int, int]:
    """(lower bound of the peak, a step that gives it).

    Every offset is a multiple of the alignments' greatest common divisor g, so all live items but the topmost
    take their size rounded up to g. A fixed item's end bounds the peak as well.
    """
    best, best_step = 0, packing.items[0].first_step if packing.items else 0
    grain = 0
    for item in packing.items:
        grain = gcd(grain, item.alignment_bytes, item.fixed_offset_bytes or 0)
    for members, step in zip(packing.sections, packing.section_steps, strict=True):
        sizes = [packing.items[i].size_bytes for i in members]
        rounded = [align_up(size, grain) for size in sizes]
        slack = max((r - s for r, s in zip(rounded, sizes, strict=True)), default=0)
        bound = max(
            [sum(rounded) - slack]
            + [i.size_bytes + (i.fixed_offset_bytes or 0) for i in (packing.items[m] for m in members)]
        )
        if bound > best:
            best, best_step = bound, step
    return best, best_step
