"""Addresses in local memory: what lives at once, lies apart; by lane, since every lane holds the same layout.

First fit in the order of the op that needs an item first, long lifetimes before short ones, then large before
small; under slices weights come before everything else, since they stay for the whole loop. Among the addresses
that are free, one is preferred that does not cross a bank (unless the item is larger than one) and that shares no
bank with what the other engine uses in the same step. Where first fit finds no room, an exact search over all
packings follows: it finds one, proves that there is none, or gives up after `Effort.search_nodes`.

Lifetimes are those of the loop: with slices, step t of every slice falls on step t mod period, and an item is live
on a circle. An elementwise op may write over an input that dies with it; then both share one address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from nnkit_tpu.layer_group.chips import Chip, align_up
from nnkit_tpu.layer_group.exact import pack
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp
from nnkit_tpu.layer_group.slices import Refusal, SlicePlan
from nnkit_tpu.layer_group.timesteps import Life, Schedule, live_bytes, lives


@dataclass(frozen=True)
class Effort:
    """Nodes of the exact search."""

    search_nodes: int = 4000


@dataclass(frozen=True, eq=False)
class Placement:
    """addresses: bytes from the start of a lane, by item (buffers as "<op>:buffer"). peak_bytes: end of the highest.

    lower_bound_bytes: the most that is live in one step. method: "first fit", "first fit, banks aside", "exact".
    bank_crossings: items that cross a bank though they are no larger. bank_conflicts: steps in which compute and a
    transfer use one bank. in_place: outputs that took their input's address.
    """

    addresses: Mapping[str, int]
    sizes: Mapping[str, int]
    peak_bytes: int
    lower_bound_bytes: int
    method: Literal["first fit", "first fit, banks aside", "exact"]
    bank_crossings: int
    bank_conflicts: int
    in_place: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "addresses", MappingProxyType(dict(self.addresses)))
        object.__setattr__(self, "sizes", MappingProxyType(dict(self.sizes)))


@dataclass(frozen=True)
class _Block:
    """Items that share an address: a tensor and what is computed in place of it. steps: of the circle or line."""

    names: tuple[str, ...]
    size_bytes: int
    steps: frozenset[int]
    order: tuple[int, int, int, int]
    compute_steps: frozenset[int]
    dma_steps: frozenset[int]


def place_group(
    chip: Chip,
    graph: GroupGraph,
    ops: Sequence[GroupOp],
    plan: SlicePlan,
    schedule: Schedule,
    effort: Effort | None = None,
) -> Placement | Refusal:
    """Addresses for everything the schedule keeps in local memory, or why it does not fit."""
    items = lives(chip, graph, ops, plan, schedule)
    bound = max(live_bytes(items, schedule), default=0)
    blocks, shared = _blocks(graph, ops, plan, items, schedule)
    capacity = chip.lane_bytes
    section = max(_sections(blocks).values(), default=0)
    if section > capacity:
        reason = f"{section} bytes per lane are live at once, of {capacity}"
        return Refusal("local memory", ops[0].name, reason)
    for preferring_banks in (True, False):
        offsets = _first_fit(chip, blocks, preferring_banks=preferring_banks)
        if offsets is not None:
            method: Literal["first fit", "first fit, banks aside"]
            method = "first fit" if preferring_banks else "first fit, banks aside"
            return _placement(chip, blocks, offsets, min(bound, section), method, shared)
    outcome = pack(
        [block.size_bytes for block in blocks],
        _live_sets(blocks),
        capacity,
        chip.eu_bytes,
        (effort or Effort()).search_nodes,
    )
    if outcome.offsets is None:
        how = "an exhaustive search proves it" if outcome.exhausted else f"{outcome.nodes} nodes of search found none"
        reason = f"no packing into {capacity} bytes per lane ({section} live at once): {how}"
        return Refusal("local memory", ops[0].name, reason)
    return _placement(chip, blocks, outcome.offsets, min(bound, section), "exact", shared)


def _on_circle(item: Life, schedule: Schedule) -> frozenset[int]:
    if schedule.passes == 1:
        return frozenset(range(item.first, item.last + 1))
    if item.whole_loop:
        # Also before the first slice and after the last one, where nothing but the circle's neighbours are live.
        return frozenset(range(schedule.period))
    return frozenset(step % schedule.period for step in range(item.first, item.last + 1))


def _blocks(
    graph: GroupGraph, ops: Sequence[GroupOp], plan: SlicePlan, items: Sequence[Life], schedule: Schedule
) -> tuple[list[_Block], tuple[str, ...]]:
    """Items by shared address, in the order of placing."""
    by_name = {item.name: item for item in items}
    root = {item.name: item.name for item in items}
    stored = {transfer.tensor for transfer in schedule.transfers if transfer.kind == "store"}
    shared: list[str] = []
    for step, op in enumerate(ops):
        if not op.in_place or not op.inputs:
            continue
        source, result = by_name[op.inputs[0]], by_name[op.output]
        same = source.size_bytes == result.size_bytes and plan.parts[op.inputs[0]] == plan.parts[op.output]
        same &= graph.tensors[op.inputs[0]].dtype_bytes == graph.tensors[op.output].dtype_bytes
        reads_once = op.inputs.count(op.inputs[0]) == 1
        joined = result.last - by_name[root[source.name]].first + 1
        short = schedule.passes == 1 or joined <= schedule.period
        if same and reads_once and short and source.last == step and source.name not in stored:
            root[op.output] = root[source.name]
            shared.append(op.output)
    members: dict[str, list[Life]] = {}
    for item in items:
        members.setdefault(root[item.name], []).append(item)
    uses = _uses(ops, schedule)
    blocks = []
    for group in members.values():
        steps = frozenset().union(*(_on_circle(item, schedule) for item in group))
        first = min(item.first for item in group)
        resident = any(item.whole_loop for item in group)
        size = max(item.size_bytes for item in group)
        compute = frozenset().union(*(uses[item.name][0] for item in group))
        dma = frozenset().union(*(uses[item.name][1] for item in group))
        order = (0 if resident else 1, first, -len(steps), -size)
        blocks.append(_Block(tuple(item.name for item in group), size, steps, order, compute, dma))
    return sorted(blocks, key=lambda block: (*block.order, block.names)), tuple(shared)


def _uses(ops: Sequence[GroupOp], schedule: Schedule) -> dict[str, tuple[frozenset[int], frozenset[int]]]:
    """By item, the steps (of the circle) in which compute and transfers touch it."""
    compute: dict[str, set[int]] = {}
    dma: dict[str, set[int]] = {}
    fold = schedule.period if schedule.passes > 1 else 1 << 30
    for step, op in enumerate(ops):
        for name in (*op.inputs, *op.weights, op.output, f"{op.name}:buffer"):
            compute.setdefault(name, set()).add(step % fold)
    for transfer in schedule.transfers:
        step = transfer.step % fold if schedule.passes > 1 else transfer.step
        dma.setdefault(transfer.tensor, set()).add(step)
    names = set(compute) | set(dma)
    return {name: (frozenset(compute.get(name, ())), frozenset(dma.get(name, ()))) for name in names}


def _sections(blocks: Sequence[_Block]) -> dict[int, int]:
    """Bytes per lane live by step."""
    totals: dict[int, int] = {}
    for block in blocks:
        for step in block.steps:
            totals[step] = totals.get(step, 0) + block.size_bytes
    return totals


def _first_fit(chip: Chip, blocks: Sequence[_Block], *, preferring_banks: bool) -> list[int] | None:
    """Offsets by block, or None where an item finds no room."""
    offsets: list[int] = []
    for index, block in enumerate(blocks):
        placed = list(zip(blocks[:index], offsets, strict=True))
        taken = sorted((at, at + other.size_bytes) for other, at in placed if other.steps & block.steps)
        free = [at for at in _candidates(chip, taken) if _is_free(at, at + block.size_bytes, taken)]
        free = [at for at in free if at + block.size_bytes <= chip.lane_bytes]
        if not free:
            return None
        if preferring_banks:
            rivals = _rival_banks(chip, block, placed)
            free.sort(
                key=lambda at: (_crosses(chip, at, block.size_bytes), bool(_banks(chip, at, block) & rivals), at)
            )
            offsets.append(free[0])
        else:
            offsets.append(min(free))
    return offsets


def _candidates(chip: Chip, taken: Sequence[tuple[int, int]]) -> list[int]:
    ends = {align_up(end, chip.eu_bytes) for _, end in taken}
    return sorted({0, *ends, *range(0, chip.lane_bytes, chip.bank_bytes)})


def _is_free(start: int, end: int, taken: Sequence[tuple[int, int]]) -> bool:
    return all(end <= low or high <= start for low, high in taken)


def _crosses(chip: Chip, start: int, size: int) -> bool:
    """Whether an item that a bank could hold lies in two."""
    return 0 < size <= chip.bank_bytes and start // chip.bank_bytes != (start + size - 1) // chip.bank_bytes


def _banks(chip: Chip, start: int, block: _Block) -> frozenset[int]:
    end = max(start + block.size_bytes - 1, start)
    return frozenset(range(start // chip.bank_bytes, end // chip.bank_bytes + 1))


def _rival_banks(chip: Chip, block: _Block, placed: Sequence[tuple[_Block, int]]) -> frozenset[int]:
    """Banks that the other engine uses in a step in which this block is used."""
    banks: set[int] = set()
    for other, at in placed:
        if block.compute_steps & other.dma_steps or block.dma_steps & other.compute_steps:
            banks |= _banks(chip, at, other)
    return frozenset(banks)


def _live_sets(blocks: Sequence[_Block]) -> list[frozenset[int]]:
    """Blocks live together, by index, in every step of the circle or line."""
    steps = sorted(frozenset().union(*(block.steps for block in blocks))) if blocks else []
    return [frozenset(i for i, block in enumerate(blocks) if step in block.steps) for step in steps]


def _placement(
    chip: Chip,
    blocks: Sequence[_Block],
    offsets: Sequence[int],
    bound: int,
    method: Literal["first fit", "first fit, banks aside", "exact"],
    shared: tuple[str, ...],
) -> Placement:
    addresses = {name: at for block, at in zip(blocks, offsets, strict=True) for name in block.names}
    sizes = {name: block.size_bytes for block in blocks for name in block.names}
    peak = max((at + block.size_bytes for block, at in zip(blocks, offsets, strict=True)), default=0)
    crossings = sum(_crosses(chip, at, block.size_bytes) for block, at in zip(blocks, offsets, strict=True))
    clashes: set[int] = set()
    for block, at in zip(blocks, offsets, strict=True):
        for other, there in zip(blocks, offsets, strict=True):
            both = block.compute_steps & other.dma_steps
            if both and block is not other and _banks(chip, at, block) & _banks(chip, there, other):
                clashes |= both
    return Placement(addresses, sizes, peak, bound, method, crossings, len(clashes), shared)
