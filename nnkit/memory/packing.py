"""The allocator's problem in a form that its searches share: items, who overlaps whom in time, and the bound.

Every rule between two items that meet has one form: if `i` lies below `j`, then `j` starts at least at
`lowest_above(i, offset, j)`, which never falls as `i` rises and is never below `offset + 1`. That is what makes
pushing items down safe, and the searches rest on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from types import MappingProxyType

import numpy as np

from nnkit.errors import InternalError


@dataclass(frozen=True)
class Item:
    """One buffer to place: `size_bytes` bytes live in steps first..last, both included.

    fixed_offset_bytes: the offset is given; the others go around it.
    within_bank: the item may not lie across a boundary of banks (`Rules.bank_bytes`).
    """

    id: str
    size_bytes: int
    first_step: int
    last_step: int
    alignment_bytes: int = 1
    fixed_offset_bytes: int | None = None
    within_bank: bool = False


@dataclass(frozen=True)
class Rules:
    """What holds between items beside "no byte twice".

    diagonals: (input, output) -> bytes: the output may be written over the input, if the input starts at least that
        many bytes above the output's start (`nnkit.memory.diagonal` computes the distance). They meet in one step
        only: the last of the input, the first of the output.
    bank_bytes: size of a memory bank; 0: no banks.
    bank_conflicts: pairs of items that may not touch the same bank while both live.
    """

    diagonals: Mapping[tuple[str, str], int] = field(default_factory=dict)
    bank_bytes: int = 0
    bank_conflicts: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "diagonals", MappingProxyType(dict(self.diagonals)))


@dataclass(frozen=True, eq=False)
class Packing:
    """Items with their neighbours (those that share a step with them).

    sections: the live sets (indices) at the steps where they are largest by inclusion; every pair of neighbours
        meets in one of them. section_steps: a step of each.
    reach: (lower, upper) -> bytes from the start of the lower to the least start of the upper, where that is not
        the size of the lower. conflicts: pairs, both ways, that may not share a bank.
    grain_bytes: every offset and every peak of a packing that is pushed down is a multiple of it.
    """

    items: tuple[Item, ...]
    neighbours: tuple[tuple[int, ...], ...]
    sections: tuple[tuple[int, ...], ...]
    section_steps: tuple[int, ...]
    reach: Mapping[tuple[int, int], int] = field(default_factory=dict)
    bank_bytes: int = 0
    conflicts: frozenset[tuple[int, int]] = frozenset()
    grain_bytes: int = 1

    @staticmethod
    def of(items: Sequence[Item], rules: Rules | None = None) -> Packing:
        """Prepare `items`.

        Raises:
            InternalError: a repeated id, a negative size, a lifetime that ends early, or rules that contradict.
        """
        items, rules = tuple(items), rules or Rules()
        index = {item.id: i for i, item in enumerate(items)}
        if len(index) != len(items):
            raise InternalError("two items to place share an id")
        for item in items:
            _check_item(item, rules)
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
        conflicts = frozenset(
            pair for a, b in rules.bank_conflicts for pair in ((index[a], index[b]), (index[b], index[a]))
        )
        reach: dict[tuple[int, int], int] = {}
        for (above, below), distance in rules.diagonals.items():
            i, j = index[above], index[below]
            if items[i].last_step != items[j].first_step:
                raise InternalError(
                    "an output overlaps an input diagonally beyond the input's last step", where=below
                )
            if distance < 1 or (i, j) in conflicts:
                raise InternalError("a diagonal overlap's distance is below 1, or the pair conflicts", where=below)
            if meet[i, j] and distance < items[j].size_bytes:
                reach[j, i] = distance
        grain = _grain(items, reach.values(), rules.bank_bytes)
        return Packing(
            items, neighbours, sections, tuple(steps), MappingProxyType(reach), rules.bank_bytes, conflicts, grain
        )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of every item."""
        return tuple(item.size_bytes for item in self.items)

    @cached_property
    def is_plain(self) -> bool:
        """Whether sizes and alignments are all that keeps items apart."""
        return not (self.reach or self.conflicts or self.bank_bytes)

    def live_at(self, step: int) -> tuple[int, ...]:
        """Indices of the items live in `step`."""
        return tuple(i for i, item in enumerate(self.items) if item.first_step <= step <= item.last_step)

    def peak(self, offsets: Sequence[int]) -> int:
        """End of the highest item, bytes."""
        return max((o + item.size_bytes for o, item in zip(offsets, self.items, strict=True)), default=0)

    def settle(self, index: int, offset: int) -> int:
        """The least offset from `offset` on that suits the item's alignment and banks."""
        item = self.items[index]
        offset = align_up(offset, item.alignment_bytes)
        if item.within_bank and self.bank_bytes and offset % self.bank_bytes + item.size_bytes > self.bank_bytes:
            offset = align_up(offset, self.bank_bytes)
        return offset

    def end_below(self, lower: int, offset: int, upper: int) -> int:
        """Where `lower`, at `offset`, ends for a neighbour above it, before that one's alignment."""
        if (lower, upper) in self.conflicts:
            return align_up(offset + self.items[lower].size_bytes, self.bank_bytes)
        return offset + self.reach.get((lower, upper), self.items[lower].size_bytes)

    def highest_below(self, lower: int, upper: int, offset: int) -> int:
        """The highest offset of `lower` below `upper` at `offset`; negative where there is no room."""
        if (lower, upper) in self.conflicts:
            return offset // self.bank_bytes * self.bank_bytes - self.items[lower].size_bytes
        return offset - self.reach.get((lower, upper), self.items[lower].size_bytes)

    def section_savings(self, grain: int) -> list[int]:
        """Per section, bytes that its diagonal overlaps may save, with sizes rounded up to `grain`."""
        savings = []
        for members in self.sections:
            inside = set(members)
            total = 0
            for (lower, upper), distance in self.reach.items():
                if lower in inside and upper in inside:
                    overlap = align_up(self.items[lower].size_bytes, grain) - distance
                    total += min(overlap, align_up(self.items[upper].size_bytes, grain))
            savings.append(total)
        return savings

    def check(self, offsets: Sequence[int]) -> None:
        """Raise InternalError unless `offsets` keep neighbours apart, are aligned and honour the fixed ones."""
        for i, item in enumerate(self.items):
            if offsets[i] < 0 or offsets[i] != self.settle(i, offsets[i]):
                raise InternalError("the allocator placed an item badly aligned", where=item.id)
            if item.fixed_offset_bytes is not None and offsets[i] != item.fixed_offset_bytes:
                raise InternalError("the allocator moved a fixed item", where=item.id)
            for j in self.neighbours[i]:
                apart = (
                    self.end_below(i, offsets[i], j) <= offsets[j] or self.end_below(j, offsets[j], i) <= offsets[i]
                )
                if not apart:
                    raise InternalError(f"the allocator let {item.id!r} overlap {self.items[j].id!r}")


def align_up(value: int, alignment: int) -> int:
    """The least multiple of `alignment` that is not below `value`."""
    return -(-value // alignment) * alignment


def max_live(packing: Packing) -> tuple[int, int]:
    """(lower bound of the peak, a step that gives it).

    Every offset is a multiple of the alignments' greatest common divisor g, so all live items but the topmost
    take their size rounded up to g. What diagonal overlaps may save is taken off. A fixed item's end bounds the
    peak as well.
    """
    best, best_step = 0, packing.items[0].first_step if packing.items else 0
    grain = 0
    for item in packing.items:
        grain = gcd(grain, item.alignment_bytes, item.fixed_offset_bytes or 0)
    savings = packing.section_savings(grain)
    for members, step, saved in zip(packing.sections, packing.section_steps, savings, strict=True):
        sizes = [packing.items[i].size_bytes for i in members]
        rounded = [align_up(size, grain) for size in sizes]
        slack = max((r - s for r, s in zip(rounded, sizes, strict=True)), default=0)
        bound = max(
            [sum(rounded) - slack - saved]
            + [i.size_bytes + (i.fixed_offset_bytes or 0) for i in (packing.items[m] for m in members)]
        )
        if bound > best:
            best, best_step = bound, step
    return align_up(best, packing.grain_bytes), best_step


def _check_item(item: Item, rules: Rules) -> None:
    if item.size_bytes < 0 or item.first_step > item.last_step or item.alignment_bytes < 1:
        raise InternalError("an item to place has a negative size, lifetime or alignment", where=item.id)
    if rules.bank_bytes and rules.bank_bytes % item.alignment_bytes:
        raise InternalError("the banks' size is no multiple of an item's alignment", where=item.id)
    if item.within_bank and not item.size_bytes <= rules.bank_bytes:
        raise InternalError("an item is to lie within a bank and is larger than one", where=item.id)
    fixed = item.fixed_offset_bytes
    if fixed is None:
        return
    if fixed < 0 or fixed % item.alignment_bytes:
        raise InternalError("an item's fixed offset is negative or not aligned", where=item.id)
    if item.within_bank and fixed % rules.bank_bytes + item.size_bytes > rules.bank_bytes:
        raise InternalError("a fixed item lies across two banks", where=item.id)


def _grain(items: Sequence[Item], distances: Iterable[int], bank_bytes: int) -> int:
    """The largest g that divides all sizes, fixed offsets and distances, and divides or is divided by alignments."""
    grain = bank_bytes
    for item in items:
        grain = gcd(grain, item.size_bytes, item.fixed_offset_bytes or 0)
    for distance in distances:
        grain = gcd(grain, distance)
    alignments = {item.alignment_bytes for item in items}
    while grain and (unlike := [a for a in alignments if grain % a and a % grain]):
        grain = gcd(grain, *unlike)
    return grain or 1
