"""Whether the vendor's compiler finds room for a group: its placement, retold.

The compiler is given cuts and slices and places what they need by itself, in more room than they need at once, and a
group that it cannot place makes it stop. Its way, as its source tells it:

* loads one step before their first reader, stores one step after their writer, on a circle of steps even where there
  is one slice only, so that the first loads and the last stores meet; weights stay for all slices;
* item after item goes to the lowest address at which any of those left could lie. Of several that could lie there it
  takes first what is still read or transferred together with something not placed yet, then the largest product of
  size and lifetime, then the earliest;
* banks that an item's op or the other engine uses in the same step are avoided where there is room elsewhere;
* where one item has no room left, all is given up.

Then it moves transfers by its own estimate of cycles, which is not retold: for one group in ten its answer differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nnkit.memory.packing import align_up
from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp
from nnkit_tpu.layer_group.slices import SlicePlan
from nnkit_tpu.layer_group.timesteps import Life, Schedule, lives

_Blocks: TypeAlias = list[tuple[int, int]]


@dataclass
class _Item:
    """Something to place. steps: of the circle, from its first on; live: the same as bits, all where it stays.

    rivals: what its op, or the other engine in its steps, uses with it. room: free addresses left. banks: avoided
    where possible. place: the lowest address it could take now, -1 where there is none.
    """

    name: str
    is_buffer: bool
    size_bytes: int
    steps: tuple[int, ...]
    live: int
    area: int
    room: _Blocks
    rivals: set[str] = field(default_factory=set)
    banks: set[int] = field(default_factory=set)
    place: int = 0


def compiler_finds_room(
    chip: Chip, graph: GroupGraph, ops: Sequence[GroupOp], plan: SlicePlan, schedule: Schedule
) -> bool:
    """Whether the compiler can place the group with these slices. schedule: the shortest (no slack used)."""
    items = lives(chip, graph, ops, plan, schedule)
    longest = max((life.last - life.first + 1 for life in items if not life.whole_loop), default=1)
    return _Packing(chip, ops, schedule, items, max(len(ops), longest)).fits()


class _Packing:
    """One run of the compiler's placement on a circle of `period` steps."""

    def __init__(
        self, chip: Chip, ops: Sequence[GroupOp], schedule: Schedule, items: Sequence[Life], period: int
    ) -> None:
        self.chip = chip
        self.items = [self._item(life, period, schedule.passes > 1) for life in items]
        transfers: list[set[str]] = [set() for _ in range(period)]
        for transfer in schedule.transfers:
            transfers[transfer.step % period].add(transfer.tensor)
        self._find_rivals(ops, transfers)
        # What is still to be placed of what an op touches, and of what is transferred meanwhile, by step.
        self.touched = [{*op.inputs, *op.weights, op.output} for op in ops] + [set()] * (period - len(ops))
        self.moved = [set(transfers[step]) if self.touched[step] else set() for step in range(period)]

    def _item(self, life: Life, period: int, sliced: bool) -> _Item:
        steps = tuple(step % period for step in range(life.first, life.last + 1))
        stays = sliced and life.kind == "weight"
        live = (1 << period) - 1 if stays else sum(1 << step for step in steps)
        area = (period if stays else len(steps)) * life.size_bytes
        room = [(0, self.chip.lane_bytes)]
        return _Item(life.name, life.kind == "buffer", life.size_bytes, steps, live, area, room)

    def _find_rivals(self, ops: Sequence[GroupOp], transfers: Sequence[set[str]]) -> None:
        """An item is its op's where it is written in its first step or read in a later one."""
        first = {item.name: item.steps[0] for item in self.items}
        uses = [{*op.inputs, *op.weights, op.output} for op in ops]
        own: list[set[str]] = []
        for step, op in enumerate(ops):
            read = {name for name in (*op.inputs, *op.weights) if first[name] != step}
            own.append(read | {f"{op.name}:buffer"} | ({op.output} if first[op.output] == step else set()))
        for item in self.items:
            for step in item.steps:
                computed = step < len(ops)
                in_use = item.is_buffer or (computed and item.name in uses[step])
                if computed and (item.name in own[step] if in_use else item.name in transfers[step]):
                    item.rivals |= own[step]
                if in_use:
                    item.rivals |= transfers[step]

    def fits(self) -> bool:
        """Place everything; whether there was room."""
        left = self.items
        while left:
            together = set().union(*self.touched, *self.moved)
            left = sorted(left, key=lambda item: (item.name not in together, -item.area, item.steps[0]))
            recent = min(left, key=lambda item: item.place)
            if recent.place + recent.size_bytes > self.chip.lane_bytes:
                return False
            left.remove(recent)
            self._forget(recent.name)
            if not all(self._leaves_room(item, recent) for item in left):
                return False
        return True

    def _leaves_room(self, item: _Item, recent: _Item) -> bool:
        """Find the item's lowest address anew, now that `recent` has its own; whether there is one."""
        start, end = recent.place, align_up(recent.place + recent.size_bytes, self.chip.eu_bytes)
        taken: list[tuple[int, int]] = []
        if recent.name in item.rivals:
            bank = self.chip.bank_bytes
            first, last = start // bank, (recent.place + recent.size_bytes - 1) // bank
            item.banks.update(range(first, last + 1))
            taken.append((first * bank, (last + 1) * bank))
        if item.live & recent.live:
            item.room = _without(item.room, start, end)
            taken.append((start, end))
        # What is taken elsewhere leaves the lowest address where it was.
        if any(low < item.place + item.size_bytes and item.place < high for low, high in taken):
            item.room = [(low, high) for low, high in item.room if high - low >= item.size_bytes]
            item.place = self._lowest(item)
        return item.place >= 0

    def _lowest(self, item: _Item) -> int:
        apart = item.room
        for bank in sorted(item.banks):
            apart = _without(apart, bank * self.chip.bank_bytes, (bank + 1) * self.chip.bank_bytes)
        return next((low for low, high in (*apart, *item.room) if high - low >= item.size_bytes), -1)

    def _forget(self, name: str) -> None:
        """What was placed no longer counts; where nothing else is left to compare with, neither does the rest."""
        for touched, moved in zip(self.touched, self.moved, strict=True):
            touched.discard(name)
            if not touched:
                moved.clear()
        for touched, moved in zip(self.touched, self.moved, strict=True):
            moved.discard(name)
            if len(touched) == 1 and not moved:
                touched.clear()


def _without(blocks: _Blocks, start: int, end: int) -> _Blocks:
    """The blocks less [start, end)."""
    left: _Blocks = []
    for low, high in blocks:
        if high <= start or end <= low:
            left.append((low, high))
            continue
        if low < start:
            left.append((low, start))
        if end < high:
            left.append((end, high))
    return left
