"""Which layers make a group: base groups, an interval dynamic program over the cuts, and a reason for every end.

A base group is a maximal run, in topological order, of ops that can work in local memory. Within one, every
interval of ops may be a group; its cost is that of its best plan (structures that repeat are planned once). The
dynamic program takes the cuts of least total cost. The cost of two neighbouring groups is less than the sum of
both: what the second loads first and the first does not write can be loaded while the first still computes its
last step, where memory allows. Intervals are judged by their shortest schedules first; the groups chosen are then
planned in full, and where one does not fit after all it is ruled out and the cuts are chosen again.

Short intervals may begin and end anywhere, long ones at the ends of the base group and at every eighth op, very long
ones at every 32nd: otherwise the work would grow with the cube of the network. Where bytes count, in small memories,
few intervals are long, and longer ones count as short; in base groups of hundreds of ops, such as recurrent layers in
steps, these begin and end at every third op, as planning would take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.model import ON_THE_HOST, GroupGraph, GroupOp
from nnkit_tpu.layer_group.orders import topological_orders
from nnkit_tpu.layer_group.plan import GroupPlan, best_plan, quick_plan
from nnkit_tpu.layer_group.rules import FREE, Rules
from nnkit_tpu.layer_group.slices import Refusal, SliceCount

Key: TypeAlias = tuple[object, ...]

_ANYWHERE, _ANYWHERE_BY_BYTES = 32, 96  # ops of the longest intervals that may begin and end anywhere
_MANY, _THIRD = 200, 3  # ops of the base groups in which intervals between these two lie at every third op
_MIDDLE, _STEP, _COARSEST = 128, 8, 32  # up to so many at every eighth op, longer ones at every 32nd


@dataclass(frozen=True)
class Boundary:
    """Why a group ends.

    after, before: ops on both sides. rule: "not local", "local memory", "overlap", "not sliceable", "too few rows" or
    "cost" where one group would be possible: then the reason has its cycles and those of the two.
    """

    after: str
    before: str
    rule: str
    reason: str


@dataclass(frozen=True, eq=False)
class GroupedGraph:
    """The whole graph: groups and single ops on global memory, in order. graph: with its ops in the order planned."""

    graph: GroupGraph
    parts: tuple[GroupPlan | GroupOp, ...]
    boundaries: tuple[Boundary, ...]
    cycles: int
    order: str = "given"
    overlap_cycles: int = 0

    @property
    def groups(self) -> tuple[GroupPlan, ...]:
        """The parts that work in local memory."""
        return tuple(part for part in self.parts if isinstance(part, GroupPlan))

    @property
    def load_bytes(self) -> int:
        """Bytes read from global memory by the groups."""
        return sum(group.load_bytes for group in self.groups)

    @property
    def store_bytes(self) -> int:
        """Bytes written to global memory by the groups."""
        return sum(group.store_bytes for group in self.groups)


@dataclass(frozen=True)
class Interval:
    """A candidate group by its shortest schedule.

    idle_tail: cycles in which its last step leaves the transfers idle; free_bytes: room per lane in that step.
    head, head_bytes: cycles and bytes per lane of the weights loaded before its first op.
    """

    cycles: int
    count: SliceCount
    idle_tail: int
    free_bytes: int
    head: int
    head_bytes: int


@dataclass(frozen=True)
class Ban:
    """No group may hold this share of these ops."""

    ops: frozenset[str]
    share: float = 1.0

    def holds(self, names: Iterable[str]) -> bool:
        """Whether a group of the ops `names` is banned."""
        return len(self.ops.intersection(names)) >= self.share * len(self.ops)


Intervals: TypeAlias = dict[Key, Interval | Refusal]


@dataclass
class _Planner:
    graph: GroupGraph
    model: CostModel
    bans: Sequence[Ban] = ()
    rules: Rules = FREE
    quick: Intervals = field(default_factory=dict)
    check: Callable[[], None] = lambda: None
    full: dict[Key, GroupPlan | Refusal] = field(default_factory=dict)

    def is_forbidden(self, first: int, last: int) -> bool:
        """Whether the half-open range may not be a group."""
        return any(ban.holds(op.name for op in self.graph.ops[first:last]) for ban in self.bans)

    def interval(self, ops: Sequence[GroupOp]) -> Interval | Refusal:
        key = structure(self.graph, ops)
        if key not in self.quick:
            self.check()
            self.quick[key] = quick_interval(self.graph, ops, self.model, self.rules)
        return self.quick[key]

    def plan(self, ops: Sequence[GroupOp]) -> GroupPlan | Refusal:
        key = (tuple(op.name for op in ops),)
        if key not in self.full:
            balance = not self.model.counts_bytes  # when a transfer is made changes no bytes
            self.full[key] = best_plan(self.graph, ops, self.model, balance=balance, rules=self.rules)
        return self.full[key]


def plan_groups(
    graph: GroupGraph,
    model: CostModel,
    *,
    orders: bool = True,
    bans: Sequence[Ban] = (),
    rules: Rules = FREE,
    known: Intervals | None = None,
    check: Callable[[], None] = lambda: None,
) -> GroupedGraph:
    """The best grouping over the topological orders (`orders`), or over the graph's own order alone.

    bans: what may not be one group. rules: what the groups have to keep to. known: intervals by their structure,
    taken from here and added to: for further plans with the same model and rules. check: called now and then; what it
    raises ends the planning.
    """
    known = {} if known is None else known
    best: GroupedGraph | None = None
    for name, order in topological_orders(graph).items() if orders else (("given", None),):
        ordered = graph if order is None else graph.reordered(order)
        planned = _plan_order(_Planner(ordered, model, bans, rules, known, check), name)
        if best is None or planned.cycles < best.cycles:
            best = planned
    if best is None:
        raise AssertionError("a graph has at least one order")
    return best


def base_groups(graph: GroupGraph) -> tuple[tuple[int, int], ...]:
    """Half-open ranges of ops that can work in local memory, as long as possible."""
    ranges: list[tuple[int, int]] = []
    start: int | None = None
    for index, op in enumerate(graph.ops):
        if op.not_local:
            if start is not None:
                ranges.append((start, index))
            start = None
        elif start is None:
            start = index
    if start is not None:
        ranges.append((start, len(graph.ops)))
    return tuple(ranges)


def global_cycles(graph: GroupGraph, op: GroupOp, model: CostModel) -> int:
    """One op on global memory: its transfers overlap its compute but for the first load and the last store."""
    if model.counts_bytes and (op.kind == "reshape" or op.not_local == ON_THE_HOST):
        return 0  # the compiler's final program moves nothing for it
    loads = [graph.tensors[name].size_bytes for name in op.inputs] + [graph.weights[w].size_bytes for w in op.weights]
    transfers = sum(model.transfer_cycles(size) for size in loads)
    store = model.transfer_cycles(graph.tensors[op.output].size_bytes)
    if model.counts_bytes:
        return transfers + store
    return max(model.compute_cycles(graph, op), transfers + store) + 2 * model.chip.dma_floor_cycles


def structure(graph: GroupGraph, ops: Sequence[GroupOp]) -> Key:
    """A key, equal for groups of equal structure: kinds, windows, shapes, wiring, and what leaves the group."""
    number: dict[str, int] = {}
    outputs = set(graph.group_outputs(ops))
    parts: list[object] = []
    for index, op in enumerate(ops):
        sources = tuple(
            number.get(name, (graph.tensors[name].shape, graph.tensors[name].dtype_bytes)) for name in op.inputs
        )
        outside = tuple(name for name in op.inputs if name not in number)
        same = tuple(outside.index(name) for name in outside)
        weights = tuple((graph.weights[w].shape, graph.weights[w].dtype_bytes) for w in op.weights)
        result = graph.tensors[op.output]
        how = (op.kind, op.window, op.group, op.function, op.axis, op.begins, op.steps, op.buffer)
        parts.append((*how, sources, same, weights, result.shape, result.dtype_bytes, op.output in outputs))
        number[op.output] = index
    return tuple(parts)


def quick_interval(
    graph: GroupGraph, ops: Sequence[GroupOp], model: CostModel, rules: Rules = FREE
) -> Interval | Refusal:
    """The interval's cost by its shortest schedule, over a thinned list of slice counts."""
    quick = quick_plan(graph, ops, model, rules)
    if isinstance(quick, Refusal):
        return quick
    cycles, count, live_last, head_names = quick
    last_op = ops[-1]
    head_sizes = [graph.weights[n].size_bytes for n in head_names if n in graph.weights]
    head = sum(model.transfer_cycles(size) for size in head_sizes)
    lanes_bytes = sum(-(-size // model.chip.lanes) for size in head_sizes)
    idle = model.compute_cycles(graph, last_op) // count.total
    return Interval(cycles, count, idle, model.chip.lane_bytes - live_last, head, lanes_bytes)


def overlap_cycles(before: Interval, after: Interval) -> int:
    """Cycles saved by loading the first weights of `after` under the last op of `before`, where they fit."""
    return min(before.idle_tail, after.head) if after.head_bytes <= before.free_bytes else 0


def _plan_order(planner: _Planner, order: str) -> GroupedGraph:
    graph, model = planner.graph, planner.model
    parts: list[GroupPlan | GroupOp] = []
    boundaries: list[Boundary] = []
    cycles = saved = 0
    position = 0
    for start, stop in base_groups(graph):
        parts += graph.ops[position:start]
        cuts, cost, won = _cut(planner, start, stop)
        cycles, saved = cycles + cost, saved + won
        for first, last in cuts:
            ops = graph.ops[first:last]
            plan = planner.plan(ops) if len(ops) > 1 else None
            parts.append(plan if isinstance(plan, GroupPlan) else ops[0])
        boundaries += [_boundary(planner, left, right) for left, right in pairwise(cuts)]
        if stop < len(graph.ops):
            after, before = graph.ops[stop - 1], graph.ops[stop]
            boundaries.append(Boundary(after.name, before.name, "not local", f"{before.name}: {before.not_local}"))
        position = stop
    parts += graph.ops[position:]
    cycles += sum(global_cycles(graph, op, model) for op in graph.ops if op.not_local)
    return GroupedGraph(graph, tuple(parts), tuple(boundaries), cycles, order, saved)


def _cut(planner: _Planner, start: int, stop: int) -> tuple[list[tuple[int, int]], int, int]:
    """(groups as half-open ranges, cycles with overlap, cycles saved by it) of least cost for ops start .. stop."""
    graph, model = planner.graph, planner.model
    refused: set[tuple[int, int]] = set()
    while True:
        costs: dict[tuple[int, int], int] = {}
        intervals: dict[tuple[int, int], Interval] = {}
        for first in range(start, stop):
            costs[first, first + 1] = global_cycles(graph, graph.ops[first], model)
            failures = 0
            for last in range(first + 2, stop + 1):
                if not is_tried(first - start, last - start, stop - start, exact=model.counts_bytes):
                    continue
                if (first, last) in refused or planner.is_forbidden(first, last):
                    continue
                interval = planner.interval(graph.ops[first:last])
                if isinstance(interval, Refusal):
                    failures += 1
                    if failures > 6:  # longer intervals hold more; a few may still fit where a branch closes
                        break
                    continue
                failures = 0
                intervals[first, last] = interval
                costs[first, last] = interval.cycles
        chosen, cycles, saved = _least(costs, intervals, start, stop)
        failed = False
        for first, last in chosen:
            if last - first < 2:
                continue
            plan = planner.plan(graph.ops[first:last])
            if isinstance(plan, Refusal):
                refused.add((first, last))
                failed = True
            else:
                cycles += plan.cycles - costs[first, last]
        if not failed:
            return chosen, cycles, saved


def is_tried(first: int, last: int, length: int, *, exact: bool) -> bool:
    """Whether the half-open range of a base group of `length` ops is a candidate.

    exact: the plan is judged by bytes, which it counts exactly, and is what will be compiled.
    """
    ops = last - first
    short = exact and ops <= _ANYWHERE_BY_BYTES
    if ops <= _ANYWHERE or (short and length < _MANY):
        return True
    step = _THIRD if short else _STEP if ops <= _MIDDLE else _COARSEST
    return first % step == 0 and (last % step == 0 or last == length)


def _least(
    costs: dict[tuple[int, int], int], intervals: dict[tuple[int, int], Interval], start: int, stop: int
) -> tuple[list[tuple[int, int]], int, int]:
    """Interval dynamic program; a state is the last group, since the overlap depends on it."""
    ending: dict[int, list[int]] = {}
    for first, last in costs:
        ending.setdefault(last, []).append(first)
    best: dict[tuple[int, int], tuple[int, tuple[int, int] | None, int]] = {}
    for last in range(start + 1, stop + 1):
        for first in ending.get(last, ()):
            cost = costs[first, last]
            if first == start:
                best[first, last] = (cost, None, 0)
                continue
            options = []
            after = intervals.get((first, last))
            for earlier in ending.get(first, ()):
                if (earlier, first) not in best:
                    continue
                before = intervals.get((earlier, first))
                won = overlap_cycles(before, after) if before is not None and after is not None else 0
                total, _, saved = best[earlier, first]
                options.append((total + cost - won, (earlier, first), saved + won))
            if options:
                best[first, last] = min(options)
    state: tuple[int, int] | None = min((s for s in best if s[1] == stop), key=lambda s: best[s][0])
    total, _, saved = best[state] if state else (0, None, 0)
    chosen: list[tuple[int, int]] = []
    while state is not None:
        chosen.append(state)
        state = best[state][1]
    return chosen[::-1], total, saved


def _boundary(planner: _Planner, left: tuple[int, int], right: tuple[int, int]) -> Boundary:
    """Why `left` and `right` are two: the group of both, or of left and the next op, fails or costs more."""
    graph, model = planner.graph, planner.model
    after, before = graph.ops[left[1] - 1].name, graph.ops[right[0]].name

    def cost(first: int, last: int) -> int | Refusal:
        if last - first == 1:
            return global_cycles(graph, graph.ops[first], model)
        interval = planner.interval(graph.ops[first:last])
        return interval if isinstance(interval, Refusal) else interval.cycles

    joined, one, other = cost(left[0], right[1]), cost(*left), cost(*right)
    if isinstance(joined, Refusal):
        return Boundary(after, before, joined.rule, f"as one group: {joined.reason}")
    apart = (one if isinstance(one, int) else 0) + (other if isinstance(other, int) else 0)
    reason = f"as one group {joined:,} cycles, as two {apart:,}"
    return Boundary(after, before, "cost", reason)
