"""Timesteps: one op each, while the next inputs are loaded and the last outputs stored.

Step t of slice s is global step s * period + t. A transfer has a step in the frame of its own slice, which may lie
before 0 (while the slice before computes) or after the last op (while the next one does): load, compute and store
of three neighbouring slices run side by side, a software pipeline of three stages. A barrier ends each step, so
that it takes the longer of its compute and its transfers; before the first op and after the last one only
transfers run.

By default a load is one step before its first reader and a store one step after its writer. Slack then moves loads
earlier and stores later, as far as memory and lifetimes allow, where that shortens the whole. Under slices,
weights are loaded once and stay (`resident`); the lifetime of everything else is at most one period, so that a
slice's tensor does not meet that of the next. Where the default lifetimes exceed the number of ops, the period
gets idle steps at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nnkit_tpu.chips import Chip, lane_bytes
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp
from nnkit_tpu.layer_group.slices import Part, SlicePlan


@dataclass(frozen=True)
class Transfer:
    """A load or store of `tensor` (an activation's part or whole weights) at `step` of its slice's frame."""

    kind: Literal["load", "store"]
    tensor: str
    step: int
    resident: bool = False


@dataclass(frozen=True)
class Life:
    """Something in local memory. first, last: steps of its slice's frame, both included. size_bytes: per lane.

    whole_loop: it stays from its load to the end of the group.
    """

    name: str
    kind: Literal["activation", "weight", "buffer"]
    size_bytes: int
    first: int
    last: int
    whole_loop: bool = False


@dataclass(frozen=True, eq=False)
class Schedule:
    """Op i computes in step i of every slice. period: steps from a slice to the next, at least the number of ops."""

    ops: tuple[str, ...]
    period: int
    passes: int
    transfers: tuple[Transfer, ...]
    cycles: int
    compute_cycles: int
    dma_cycles: int


def part_shape(graph: GroupGraph, name: str, part: Part) -> tuple[int, int, int, int]:
    """[n, c, h, w] of a tensor's part."""
    _, channels, _, width = graph.tensors[name].shape
    return part.images.length, channels, part.rows.length, width


def part_bytes(graph: GroupGraph, name: str, part: Part) -> int:
    """Bytes of a tensor's part in global memory."""
    images, channels, height, width = part_shape(graph, name, part)
    return images * channels * height * width * graph.tensors[name].dtype_bytes


def lives(chip: Chip, graph: GroupGraph, ops: Sequence[GroupOp], plan: SlicePlan, schedule: Schedule) -> list[Life]:
    """What the group keeps in local memory, with lifetimes and bytes per lane (of the largest slice)."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    resident: set[str] = set()
    for transfer in schedule.transfers:
        if transfer.kind == "load":
            first[transfer.tensor] = transfer.step
        else:
            last[transfer.tensor] = max(last.get(transfer.tensor, transfer.step), transfer.step)
        if transfer.resident:
            resident.add(transfer.tensor)
    result: list[Life] = []
    for step, op in enumerate(ops):
        first.setdefault(op.output, step)
        for name in (*op.inputs, *op.weights, op.output):
            last[name] = max(last.get(name, step), step)
    for name, start in first.items():
        if name in graph.weights:
            weight = graph.weights[name]
            size = lane_bytes(chip, weight.shape, weight.dtype_bytes, eu_aligned=weight.aligned)
            result.append(Life(name, "weight", size, start, last[name], name in resident))
        else:
            result.append(Life(name, "activation", tensor_lane_bytes(chip, graph, plan, name), start, last[name]))
    for step, op in enumerate(ops):
        inputs = tensor_lane_bytes(chip, graph, plan, op.inputs[0]) if op.inputs else 0
        size = op.buffer.size_bytes(tensor_lane_bytes(chip, graph, plan, op.output), inputs)
        if size:
            result.append(Life(f"{op.name}:buffer", "buffer", size, step, step))
    return result


def tensor_lane_bytes(chip: Chip, graph: GroupGraph, plan: SlicePlan, name: str) -> int:
    """Bytes per lane of the largest slice of an activation."""
    dtype_bytes = graph.tensors[name].dtype_bytes
    return max(lane_bytes(chip, part_shape(graph, name, part), dtype_bytes) for part in set(plan.parts[name]))


def live_bytes(items: Sequence[Life], schedule: Schedule) -> list[int]:
    """Bytes per lane live in each step: of the period where it repeats, else from one before to one after the ops."""
    if schedule.passes > 1:
        totals = [0] * schedule.period
        for item in items:
            steps = range(schedule.period) if item.whole_loop else range(item.first, item.last + 1)
            for step in steps:
                totals[step % schedule.period] += item.size_bytes
        return totals
    early = min((item.first for item in items), default=0)
    totals = [0] * (max((item.last for item in items), default=0) - early + 1)
    for item in items:
        for step in range(item.first, item.last + 1):
            totals[step - early] += item.size_bytes
    return totals


def schedule_group(
    graph: GroupGraph,
    ops: Sequence[GroupOp],
    plan: SlicePlan,
    model: CostModel,
    *,
    balance: bool = True,
    hold_weights: bool = True,
) -> Schedule:
    """The steps of the group.

    balance: use slack, within the chip's local memory. hold_weights: under slices weights are loaded once and stay;
    otherwise every slice loads them again, which costs transfers and saves memory.
    """
    passes = plan.count.total
    transfers = _default_transfers(graph, ops, resident=passes > 1 and hold_weights)
    shortest = Schedule(tuple(op.name for op in ops), len(ops), passes, tuple(transfers), 0, 0, 0)
    items = lives(model.chip, graph, ops, plan, shortest)
    longest = max((item.last - item.first + 1 for item in items if not item.whole_loop), default=1)
    period = max(len(ops), longest) if passes > 1 else len(ops)
    line = _Timeline(graph, ops, plan, model, period, transfers)
    if balance:
        _use_slack(line, {item.name: item for item in items}, replace(shortest, period=period))
    return Schedule(
        shortest.ops, period, passes, tuple(line.transfers), line.cycles(), sum(line.compute), sum(line.dma)
    )


def _default_transfers(graph: GroupGraph, ops: Sequence[GroupOp], *, resident: bool) -> list[Transfer]:
    transfers: dict[str, Transfer] = {}
    outside = set(graph.group_inputs(ops))
    for step, op in enumerate(ops):
        for name in op.inputs:
            if name in outside and name not in transfers:
                transfers[name] = Transfer("load", name, step - 1)
        for name in op.weights:
            transfers.setdefault(name, Transfer("load", name, step - 1, resident))
    position = {op.output: step for step, op in enumerate(ops)}
    stores = [Transfer("store", name, position[name] + 1) for name in graph.group_outputs(ops)]
    return [*transfers.values(), *stores]


class _Timeline:
    """Cycles of compute and of transfers in every global step, kept up to date while transfers move.

    Global steps run from -lead, the prologue, to the epilogue; index = step + lead.
    """

    def __init__(
        self,
        graph: GroupGraph,
        ops: Sequence[GroupOp],
        plan: SlicePlan,
        model: CostModel,
        period: int,
        transfers: list[Transfer],
    ) -> None:
        self.period, self.passes, self.ops = period, plan.count.total, len(ops)
        self.lead, self.capacity = 2, model.chip.lane_bytes
        length = self.passes * period + self.lead + 2
        self.compute, self.dma = [0] * length, [0] * length
        self.transfers = transfers
        cache: dict[tuple[str, int, int], int] = {}
        for step, op in enumerate(ops):
            for index, part in enumerate(plan.parts[op.output]):
                key = (op.name, part.images.length, part.rows.length)
                if key not in cache:
                    cache[key] = model.compute_cycles(graph, op, part)
                self.compute[self.lead + index * period + step] = cache[key]
        self.costs: list[list[int]] = []
        for transfer in transfers:
            if transfer.tensor in graph.weights:
                cycles = model.transfer_cycles(graph.weights[transfer.tensor].size_bytes)
                self.costs.append([cycles] if transfer.resident or self.passes == 1 else [cycles] * self.passes)
                continue
            parts = (plan.parts if transfer.kind == "load" else plan.shares)[transfer.tensor]
            sizes = [part_bytes(graph, transfer.tensor, part) for part in parts]
            self.costs.append([model.transfer_cycles(size, of_first_slice=not i) for i, size in enumerate(sizes)])
        for number, transfer in enumerate(transfers):
            self._add(number, transfer.step, 1)

    def _index(self, step: int, index: int) -> int:
        return self.lead + index * self.period + step

    def _add(self, number: int, step: int, sign: int) -> None:
        for index, cycles in enumerate(self.costs[number]):
            self.dma[self._index(step, index)] += sign * cycles

    def cycles(self) -> int:
        """Sum over all steps of the longer of compute and transfers."""
        return sum(max(pair) for pair in zip(self.compute, self.dma, strict=True))

    def gain(self, number: int, target: int) -> int:
        """Cycles saved by moving transfer `number` to step `target`."""
        saved = 0
        source = self.transfers[number].step
        delta: dict[int, int] = {}
        for index, cycles in enumerate(self.costs[number]):
            for step, sign in ((source, -1), (target, 1)):
                place = self._index(step, index)
                delta[place] = delta.get(place, 0) + sign * cycles
        for place, change in delta.items():
            compute, dma = self.compute[place], self.dma[place]
            saved += max(compute, dma) - max(compute, dma + change)
        return saved

    def move(self, number: int, target: int) -> None:
        """Move transfer `number` to step `target`."""
        self._add(number, self.transfers[number].step, -1)
        self.transfers[number] = replace(self.transfers[number], step=target)
        self._add(number, target, 1)


def _use_slack(line: _Timeline, items: dict[str, Life], schedule: Schedule) -> None:
    """Move transfers, one at a time, to the step that saves most, until nothing is saved any more."""
    for _ in range(3):
        moved = False
        # The latest loads first: they find room just before them, and leave the earlier room to earlier ones.
        for number in sorted(range(len(line.transfers)), key=lambda i: -line.transfers[i].step):
            transfer = line.transfers[number]
            item = items[transfer.tensor]
            best_gain, best_step = 0, transfer.step
            for target in _targets(line, transfer, item):
                gained = line.gain(number, target)
                if gained > best_gain and _fits(line, items, schedule, transfer, item, target):
                    best_gain, best_step = gained, target
            if best_gain:
                line.move(number, best_step)
                items[transfer.tensor] = _with_step(item, transfer, best_step)
                moved = True
        if not moved:
            return


_REACH = 64  # steps that a transfer moves at once; further, what it saves is in most cases what it saves nearby


def _targets(line: _Timeline, transfer: Transfer, item: Life) -> list[int]:
    """Steps to which the transfer may go, nearest first."""
    if transfer.kind == "load":
        earliest = -1 if transfer.resident or line.passes == 1 else max(item.last - line.period + 1, -1)
        earliest = max(earliest, transfer.step - _REACH)
        return list(range(transfer.step - 1, earliest - 1, -1))
    latest = line.ops if line.passes == 1 else min(item.first + line.period - 1, line.period)
    return list(range(transfer.step + 1, min(latest, transfer.step + _REACH) + 1))


def _with_step(item: Life, transfer: Transfer, step: int) -> Life:
    if transfer.kind == "load":
        return replace(item, first=step)
    return replace(item, last=max(item.last, step))


def _fits(
    line: _Timeline, items: dict[str, Life], schedule: Schedule, transfer: Transfer, item: Life, target: int
) -> bool:
    """Whether the longer lifetime keeps every step's live bytes within a lane."""
    longer = {**items, item.name: _with_step(item, transfer, target)}
    return max(live_bytes(list(longer.values()), schedule)) <= line.capacity
