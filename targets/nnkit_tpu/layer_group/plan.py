"""The plan of one group: how many slices, what each step does, where everything lies, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp
from nnkit_tpu.layer_group.placement import Effort, Placement, place_group
from nnkit_tpu.layer_group.rules import FREE, UNEQUAL, Rules, no_room, unequal_parts
from nnkit_tpu.layer_group.slices import Refusal, SliceCount, SlicePlan, slice_counts, slice_group
from nnkit_tpu.layer_group.timesteps import Schedule, live_bytes, lives, part_bytes, schedule_group

_MOST_UNEQUAL = 8  # slice counts whose parts are unequal, before a group is given up


@dataclass(frozen=True, eq=False)
class GroupPlan:
    """One group, ready to be executed.

    load_bytes, store_bytes: global memory traffic. repeated_rows: rows computed or loaded more than once, summed over
    tensors. tried: slice counts that were looked at.
    """

    ops: tuple[GroupOp, ...]
    slices: SlicePlan
    schedule: Schedule
    placement: Placement
    load_bytes: int
    store_bytes: int
    repeated_rows: int
    tried: int = field(default=1)

    @property
    def cycles(self) -> int:
        """Estimated cycles of the whole group."""
        return self.schedule.cycles


def plan_with_count(
    graph: GroupGraph,
    ops: Sequence[GroupOp],
    count: SliceCount,
    model: CostModel,
    *,
    balance: bool = True,
    effort: Effort | None = None,
    limit_overlap: bool = True,
    rules: Rules = FREE,
) -> GroupPlan | Refusal:
    """Plan the group with this number of slices, or say why it cannot be. rules: what else it has to keep to."""
    slices = _slices(graph, ops, count, rules, limit_overlap=limit_overlap)
    if isinstance(slices, Refusal):
        return slices
    if rules.own_placement:
        shortest = schedule_group(graph, ops, slices, model, balance=False)
        crowded = no_room(model.chip, graph, ops, slices, shortest)
        if crowded is not None:
            return crowded
    refusal = Refusal("local memory", ops[0].name, "nothing was tried")
    # A balanced schedule keeps more in memory: where it finds no place, the shortest lifetimes may. Where even these
    # do not, every slice loads its weights again.
    ways = [(True, True), (False, True), *([(True, False), (False, False)] if count.total > 1 else [])]
    for balanced, hold_weights in ways:
        if (balanced and not balance) or (rules.own_placement and not hold_weights):
            continue
        schedule = schedule_group(graph, ops, slices, model, balance=balanced, hold_weights=hold_weights)
        placement = place_group(model.chip, graph, ops, slices, schedule, effort)
        if isinstance(placement, Placement):
            return _plan(graph, ops, slices, schedule, placement)
        refusal = placement
    return refusal


def best_plan(
    graph: GroupGraph,
    ops: Sequence[GroupOp],
    model: CostModel,
    *,
    balance: bool = True,
    further: int | None = 4,
    effort: Effort | None = None,
    rules: Rules = FREE,
) -> GroupPlan | Refusal:
    """The plan of least cost over slice counts: the first that fits and `further` ones after it (None: all)."""
    best: GroupPlan | None = None
    first_refusal: Refusal | None = None
    tried = since = unequal = 0
    for count in candidate_counts(graph, ops):
        tried += 1
        found = plan_with_count(graph, ops, count, model, balance=balance, effort=effort, rules=rules)
        if isinstance(found, Refusal):
            first_refusal = first_refusal or found
            unequal += found.rule == UNEQUAL
            if unequal > _MOST_UNEQUAL:
                break
            # More slices only overlap more, and never make an op sliceable.
            if found.rule in ("not sliceable", "too few rows") and count.h > 1:
                break
            if found.rule == "overlap" and further is not None:
                break
            if best is not None:
                since += 1
        else:
            since += best is not None
            if best is None or found.cycles < best.cycles:
                best = found
        if further is not None and best is not None and since >= further:
            break
    if best is None:
        return first_refusal or Refusal("local memory", ops[0].name, "no number of slices fits")
    return GroupPlan(
        best.ops,
        best.slices,
        best.schedule,
        best.placement,
        best.load_bytes,
        best.store_bytes,
        best.repeated_rows,
        tried,
    )


def candidate_counts(graph: GroupGraph, ops: Sequence[GroupOp]) -> Iterator[SliceCount]:
    """Slice counts to try; a group whose outputs cannot be cut has one."""
    yield from slice_counts(graph, ops)


def _plan(
    graph: GroupGraph, ops: Sequence[GroupOp], slices: SlicePlan, schedule: Schedule, placement: Placement
) -> GroupPlan:
    loads = stores = repeated = 0
    passes = slices.count.total
    for transfer in schedule.transfers:
        if transfer.tensor in graph.weights:
            loads += graph.weights[transfer.tensor].size_bytes * (1 if transfer.resident else passes)
        elif transfer.kind == "load":
            loads += sum(part_bytes(graph, transfer.tensor, part) for part in slices.parts[transfer.tensor])
        else:
            stores += sum(part_bytes(graph, transfer.tensor, part) for part in slices.shares[transfer.tensor])
    if passes > 1:
        for name, parts in slices.parts.items():
            images, _, height, _ = graph.tensors[name].shape
            repeated += sum(part.rows.length * part.images.length for part in parts) - images * height
    return GroupPlan(tuple(ops), slices, schedule, placement, loads, stores, repeated)


def quick_plan(
    graph: GroupGraph, ops: Sequence[GroupOp], model: CostModel, rules: Rules = FREE
) -> tuple[int, SliceCount, int, tuple[str, ...]] | Refusal:
    """(cycles, slices, bytes per lane live in the last step, what is loaded before the first op) by the shortest
    schedule of the first slice count that fits by its live bytes, and of two more. Not a plan: nothing is placed."""
    refusal: Refusal | None = None
    best: tuple[int, SliceCount, int, tuple[str, ...]] | None = None
    further = unequal = 0
    for count in _thinned(candidate_counts(graph, ops)):
        slices = _slices(graph, ops, count, rules)
        if isinstance(slices, Refusal):
            unequal += slices.rule == UNEQUAL
            if slices.rule == UNEQUAL and unequal <= _MOST_UNEQUAL:  # the next number of slices may fit the strides
                refusal = slices
                continue
            refusal = refusal if refusal is not None and best is None and slices.rule == "too few rows" else slices
            break
        schedule = schedule_group(graph, ops, slices, model, balance=False)
        items = lives(model.chip, graph, ops, slices, schedule)
        live = live_bytes(items, schedule)
        if max(live, default=0) > model.chip.lane_bytes:
            reason = (
                f"{max(live)} bytes per lane are live at once in {count.total} slices, of {model.chip.lane_bytes}"
            )
            refusal = Refusal("local memory", ops[0].name, reason)
            continue
        crowded = no_room(model.chip, graph, ops, slices, schedule) if rules.own_placement else None
        if crowded is not None:
            refusal = crowded
            continue
        head = tuple(t.tensor for t in schedule.transfers if t.kind == "load" and t.step < 0)
        if best is None or schedule.cycles < best[0]:
            best = (schedule.cycles, count, live[-1], head)
        further += 1
        if further > 2 or count.total == 1:
            break
    return best if best is not None else refusal or Refusal("local memory", ops[0].name, "no number of slices fits")


def _slices(
    graph: GroupGraph, ops: Sequence[GroupOp], count: SliceCount, rules: Rules, *, limit_overlap: bool = True
) -> SlicePlan | Refusal:
    """The group's slices, as far as the rules allow them."""
    slices = slice_group(graph, ops, count, limit_overlap=limit_overlap)
    if isinstance(slices, Refusal) or not rules.equal_parts:
        return slices
    return unequal_parts(graph, ops, slices) or slices


def _thinned(counts: Iterator[SliceCount]) -> Iterator[SliceCount]:
    """Every count up to 8 slices, every second up to 16, every fourth beyond."""
    for count in counts:
        step = 1 if count.total <= 8 else 2 if count.total <= 16 else 4
        if count.total % step == 0:
            yield count
