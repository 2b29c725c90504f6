"""The plan of one group: how many slices, what each step does, and what it costs.

A plan fits where all that is live in a step has room in a lane, and, where it is for the compiler, where the
compiler's placement finds room. Addresses are not chosen: the compiler takes none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.model import GroupGraph, GroupOp
from nnkit_tpu.layer_group.rules import FREE, UNEQUAL, Rules, no_room, unequal_parts
from nnkit_tpu.layer_group.slices import Refusal, SliceCount, SlicePlan, slice_counts, slice_group
from nnkit_tpu.layer_group.timesteps import Schedule, live_bytes, lives, part_bytes, schedule_group

_MOST_UNEQUAL = 8  # slice counts whose parts are unequal, before a group is given up
_FURTHER = 4  # slice counts that are tried after the first that fits


@dataclass(frozen=True, eq=False)
class GroupPlan:
    """The plan of one group.

    live_bytes: per lane, in the step in which most is live. load_bytes, store_bytes: global memory traffic.
    repeated_rows: rows computed or loaded more than once, summed over tensors. tried: slice counts looked at.
    """

    ops: tuple[GroupOp, ...]
    slices: SlicePlan
    schedule: Schedule
    live_bytes: int
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
    rules: Rules = FREE,
) -> GroupPlan | Refusal:
    """Plan the group with this number of slices, or say why it cannot be. rules: what else it has to keep to.

    balance: move transfers to where they cost least. Where weights cannot stay in local memory for all slices, every
    slice loads them again, unless the rules forbid it.
    """
    slices = _slices(graph, ops, count, rules)
    if isinstance(slices, Refusal):
        return slices
    if rules.own_placement:
        shortest = schedule_group(graph, ops, slices, model, balance=False)
        crowded = no_room(model.chip, graph, ops, slices, shortest)
        if crowded is not None:
            return crowded
    refusal = Refusal("local memory", ops[0].name, "nothing was tried")
    for hold_weights in (True, False) if count.total > 1 and not rules.own_placement else (True,):
        schedule = schedule_group(graph, ops, slices, model, balance=balance, hold_weights=hold_weights)
        live = max(live_bytes(lives(model.chip, graph, ops, slices, schedule), schedule), default=0)
        if live <= model.chip.lane_bytes:
            return _plan(graph, ops, slices, schedule, live)
        refusal = _too_much(ops, count, live, model)
    return refusal


def best_plan(
    graph: GroupGraph, ops: Sequence[GroupOp], model: CostModel, *, balance: bool = True, rules: Rules = FREE
) -> GroupPlan | Refusal:
    """The plan of least cost over the first slice count that fits and a few after it."""
    best: GroupPlan | None = None
    first_refusal: Refusal | None = None
    tried = since = unequal = 0
    for count in slice_counts(graph, ops):
        tried += 1
        plan = plan_with_count(graph, ops, count, model, balance=balance, rules=rules)
        if isinstance(plan, Refusal):
            first_refusal = first_refusal or plan
            unequal += plan.rule == UNEQUAL
            if unequal > _MOST_UNEQUAL:
                break
            # More slices only overlap more, and never make an op sliceable.
            if plan.rule == "overlap" or (plan.rule in ("not sliceable", "too few rows") and count.h > 1):
                break
            since += best is not None
        else:
            since += best is not None
            if best is None or plan.cycles < best.cycles:
                best = plan
        if best is not None and since >= _FURTHER:
            break
    if best is None:
        return first_refusal or Refusal("local memory", ops[0].name, "no number of slices fits")
    return replace(best, tried=tried)


def _plan(graph: GroupGraph, ops: Sequence[GroupOp], slices: SlicePlan, schedule: Schedule, live: int) -> GroupPlan:
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
    return GroupPlan(tuple(ops), slices, schedule, live, loads, stores, repeated)


def quick_plan(
    graph: GroupGraph, ops: Sequence[GroupOp], model: CostModel, rules: Rules = FREE
) -> tuple[int, SliceCount, int, tuple[str, ...]] | Refusal:
    """(cycles, slices, bytes per lane live in the last step, what is loaded before the first op) by the shortest
    schedule of the first slice count that fits by its live bytes, and of two more. Not a plan: nothing is placed."""
    refusal: Refusal | None = None
    best: tuple[int, SliceCount, int, tuple[str, ...]] | None = None
    further = unequal = 0
    for count in _thinned(slice_counts(graph, ops)):
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
            refusal = _too_much(ops, count, max(live), model)
            continue
        crowded = no_room(model.chip, graph, ops, slices, schedule) if rules.judged_early else None
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


def _too_much(ops: Sequence[GroupOp], count: SliceCount, live: int, model: CostModel) -> Refusal:
    reason = f"{live} bytes per lane are live at once in {count.total} slices, of {model.chip.lane_bytes}"
    return Refusal("local memory", ops[0].name, reason)


def _slices(graph: GroupGraph, ops: Sequence[GroupOp], count: SliceCount, rules: Rules) -> SlicePlan | Refusal:
    """The group's slices, as far as the rules allow them."""
    slices = slice_group(graph, ops, count)
    if isinstance(slices, Refusal) or not rules.equal_parts:
        return slices
    return unequal_parts(graph, ops, slices) or slices


def _thinned(counts: Iterator[SliceCount]) -> Iterator[SliceCount]:
    """Every count up to 8 slices, every second up to 16, every fourth beyond."""
    for count in counts:
        step = 1 if count.total <= 8 else 2 if count.total <= 16 else 4
        if count.total % step == 0:
            yield count
