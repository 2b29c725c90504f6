"""Our groups against the compiler's own, by its own measure: compare, improve, and say what won.

1. The compiler groups by itself: the baseline, and the measurements that the cost model is calibrated with.
2. Our plan is compiled; on chips without a simulator of cycles the plans of least bytes (`counted_bytes.py`). Its
   groups, those of plans for less memory, and the compiler's are also measured one by one; the set of disjoint groups
   that saves most is compiled.
3. The better of both is improved step by step: two neighbours joined, a group split, a cut moved, one slice more or
   less, the compiler left to choose the slices. Each step is compiled and kept only if the compiler's simulator (its
   cycles, or on chips without one the bytes of the final program) says that it is better.
4. Other topological orders are tried with the compiler's own groups and with ours; the best of them is improved like
   the given one.

The baseline is itself a candidate: where nothing is better, the choice is "vendor's cuts".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from nnkit.errors import ToolError
from nnkit_tpu.layer_group.cost import CostModel, calibrated
from nnkit_tpu.layer_group.counted_bytes import attempt_by_bytes, more_transfers
from nnkit_tpu.layer_group.groups import global_cycles, plan_groups
from nnkit_tpu.layer_group.injection import LoweredProgram, Outcome, compile_groups, groups_of
from nnkit_tpu.layer_group.model import GroupGraph
from nnkit_tpu.layer_group.orders import topological_orders
from nnkit_tpu.layer_group.plan import plan_with_count, quick_plan
from nnkit_tpu.layer_group.rules import compiler_rules, whole_plan_rules
from nnkit_tpu.layer_group.slices import Refusal, SliceCount
from nnkit_tpu.layer_group.vendor_files import InjectedGroup
from nnkit_tpu.toolchain.find import Toolchain

VENDORS_CUTS = "vendor's cuts"
_PLANS = 4  # compilations for plans of least bytes
_PROMISING = 1.01  # another order of the layers that costs no more than this is improved too
Check: TypeAlias = Callable[[Outcome, Outcome], str]


@dataclass(frozen=True)
class Trial:
    """One compilation. choice: what was different. cost: cycles or bytes; None: the compiler refused it."""

    choice: str
    cost: int | None
    refused: str = ""


@dataclass(frozen=True, eq=False)
class Tuning:
    """vendor: the compiler's own choice. best: the best candidate, in the program `program`, by which `choice`.

    model: the cost model with what the baseline measured.
    """

    vendor: Outcome
    best: Outcome
    program: LoweredProgram
    choice: str
    trials: tuple[Trial, ...]
    model: CostModel

    @property
    def gain(self) -> float:
        """By what part the best candidate is better than the vendor's choice."""
        return 1.0 - self.best.cost / self.vendor.cost if self.vendor.cost else 0.0


@dataclass(frozen=True)
class Budget:
    """Compilations. groups: candidates measured alone; steps: of improvement; orders: other orders."""

    groups: int = 24
    steps: int = 16
    orders: int = 3


@dataclass
class _Search:
    toolchain: Toolchain
    program: LoweredProgram
    vendor: Outcome
    best: Outcome
    best_program: LoweredProgram
    check: Check | None
    choice: str = VENDORS_CUTS
    trials: list[Trial] = field(default_factory=list)

    def attempt(
        self, program: LoweredProgram, groups: Mapping[str, Sequence[InjectedGroup]] | None, choice: str
    ) -> Outcome:
        """Compile and note; the best so far is kept."""
        outcome = compile_groups(self.toolchain, program, groups)
        better = not outcome.refused and outcome.cost < self.best.cost and not more_transfers(outcome, self.vendor)
        if better and self.check is not None:
            outcome = replace(outcome, refused=self.check(self.vendor, outcome))
        self.trials.append(Trial(choice, None if outcome.refused else outcome.cost, outcome.refused))
        if better and not outcome.refused:
            self.best, self.best_program = outcome, program
            self.choice = choice
        return outcome


def tune(
    toolchain: Toolchain,
    program: LoweredProgram,
    model: CostModel,
    budget: Budget | None = None,
    check: Check | None = None,
) -> Tuning:
    """Compile the vendor's choice, ours, and what lies around the better of them.

    check: a last look at every candidate that would be the best (a run on the chip model, say): why it may not be, or
    an empty string. It is called with the vendor's outcome and the candidate's.

    Raises ToolError where the compiler cannot compile the program with groups of its own.
    """
    limits = budget or Budget()
    vendor = compile_groups(toolchain, program)
    model = model_from(model, program, vendor)
    search = _Search(toolchain, program, vendor, vendor, program, check)
    search.trials.append(Trial(VENDORS_CUTS, vendor.cost))
    if model.counts_bytes:
        attempt_by_bytes(search.attempt, vendor, program, model, _PLANS)
    _assemble(search, program, model, limits.groups)
    _improve(search, model, search.best, search.best_program, limits.steps)
    cuts, cut_by = search.best, search.choice
    in_given_order = cuts is not vendor and search.best_program is program
    ordered: list[tuple[int, Outcome, LoweredProgram]] = []
    for order, name in other_orders(program)[: limits.orders]:
        function = next(item for item in program.functions if item.name == name)
        if in_given_order and groups_hold(cuts.groups.get(name, ()), function.graph, order):
            search.attempt(program.reordered(name, order), cuts.groups, f"{cut_by}, op order")
        reordered = program.reordered(name, order)
        try:
            outcome = search.attempt(reordered, None, "op order")
            ordered.append((outcome.cost, outcome, reordered))
        except ToolError as error:
            search.trials.append(Trial("op order", None, error.reason))
    if ordered:
        cost, outcome, reordered = min(ordered, key=lambda item: item[0])
        if cost <= _PROMISING * vendor.cost:
            _improve(search, model, outcome, reordered, limits.steps // 2, "op order, ")
    return Tuning(vendor, search.best, search.best_program, search.choice, tuple(search.trials), model)


def model_from(model: CostModel, program: LoweredProgram, outcome: Outcome) -> CostModel:
    """The model with the compute cycles and transfer rate of a profile; without one it counts bytes."""
    if outcome.profile is None:
        return replace(model, counts_bytes=True)
    transfers = np.asarray(outcome.profile.transfers, np.float64).reshape(-1, 2)
    large = transfers[transfers[:, 0] > 4096]
    if len(large) >= 4 and np.ptp(large[:, 0]) > 0:
        slope, start = np.polyfit(large[:, 0], large[:, 1], 1)
        if slope > 0:
            model = replace(model, dma_bytes_per_cycle=1.0 / float(slope), dma_start_cycles=max(int(start), 0))
    if outcome.op_cycles:
        for function in program.functions:
            model = calibrated(model, function.graph, outcome.op_cycles)
    return model


def main_function(program: LoweredProgram) -> int:
    """The function with most ops."""
    return max(range(len(program.functions)), key=lambda index: len(program.functions[index].graph.ops))


def _assemble(search: _Search, program: LoweredProgram, model: CostModel, most: int) -> None:
    """Measure candidate groups one by one and take the set that saves most, as far as groups add up.

    Candidates are the compiler's own groups and those of our plans, for the whole local memory and for smaller ones:
    the compiler's placement is looser than ours and refuses what we can place.
    """
    function = program.functions[main_function(program)]
    none = compile_groups(search.toolchain, program, {function.name: ()})
    if none.refused:
        return
    savings: dict[InjectedGroup, int] = {}
    candidates = list(search.vendor.groups.get(function.name, ()))
    for part in (1.0, 0.85, 0.7, 0.5):
        chip = replace(model.chip, lane_bytes=int(model.chip.lane_bytes * part) // 1024 * 1024)
        smaller = replace(model, chip=chip)
        rules = whole_plan_rules(chip) if part == 1.0 else compiler_rules(chip)
        groups = groups_of(plan_groups(function.graph, smaller, orders=False, rules=rules))
        if part == 1.0 and groups:
            search.attempt(program, {function.name: groups}, "cuts")
        candidates += groups
    for group in list(dict.fromkeys(candidates))[:most]:
        alone = compile_groups(search.toolchain, program, {function.name: (group,)})
        if not alone.refused and alone.cost < none.cost:
            savings[group] = none.cost - alone.cost
    chosen = best_disjoint(savings, len(function.graph.ops))
    if chosen:
        search.attempt(program, {function.name: chosen}, "cuts")


def best_disjoint(savings: Mapping[InjectedGroup, int], length: int) -> tuple[InjectedGroup, ...]:
    """The groups without a common op that save most together (weighted interval scheduling)."""
    best: list[tuple[int, tuple[InjectedGroup, ...]]] = [(0, ())]
    for end in range(1, length + 1):
        options = [best[end - 1]]
        for group, saved in savings.items():
            if group.last + 1 == end:
                before, chosen = best[group.first]
                options.append((before + saved, (*chosen, group)))
        best.append(max(options, key=lambda option: option[0]))
    return best[length][1]


def _improve(
    search: _Search, model: CostModel, start: Outcome, program: LoweredProgram, steps: int, how: str = ""
) -> None:
    """First improvement, over and over, around the groups of `start`; what the cost model favours is tried first."""
    seen: set[object] = set()
    function = program.functions[main_function(program)]
    graph, rules = function.graph, compiler_rules(program.chip)
    local = [not op.not_local for op in graph.ops]
    estimates: dict[tuple[int, int, SliceCount | None], tuple[int, SliceCount] | None] = {}

    def estimate(group: InjectedGroup) -> tuple[int, SliceCount] | None:
        """(cost, slices) of a group by the model; None where it does not fit."""
        key = (group.first, group.last, group.slices)
        if key not in estimates:
            ops = graph.ops[group.first : group.last + 1]
            if group.slices is None:
                quick = quick_plan(graph, ops, model, rules)
                estimates[key] = None if isinstance(quick, Refusal) else quick[:2]
            else:
                plan = plan_with_count(graph, ops, group.slices, model, balance=False, rules=rules)
                estimates[key] = None if isinstance(plan, Refusal) else (plan.cycles, group.slices)
        return estimates[key]

    def settled(groups: tuple[InjectedGroup, ...]) -> tuple[int, tuple[InjectedGroup, ...]] | None:
        """(estimated cost of the graph, the groups with slices chosen); None where one does not fit."""
        costs = [estimate(group) for group in groups]
        total, chosen = 0, []
        for group, item in zip(groups, costs, strict=True):
            if item is None:
                return None
            total += item[0]
            chosen.append(replace(group, slices=item[1]))
        inside = {index for group in groups for index in range(group.first, group.last + 1)}
        total += sum(global_cycles(graph, op, model) for i, op in enumerate(graph.ops) if i not in inside)
        return total, tuple(chosen)

    moved = True
    while moved and steps > 0:
        moved = False
        around = []
        for groups, choice in _neighbours(start.groups.get(function.name, ()), len(graph.ops), local):
            item = settled(groups)
            if item is not None and item[1] not in seen:
                around.append((item[0], item[1], choice))
        for _, groups, choice in sorted(around, key=lambda item: item[0]):
            if steps <= 0:
                return
            seen.add(groups)
            steps -= 1
            outcome = search.attempt(program, {**start.groups, function.name: groups}, how + choice)
            if not outcome.refused and outcome.cost < start.cost and not more_transfers(outcome, search.vendor):
                start, moved = outcome, True
                break


def _neighbours(
    groups: tuple[InjectedGroup, ...], length: int, local: Sequence[bool]
) -> Iterator[tuple[tuple[InjectedGroup, ...], str]]:
    """Groupings one step away, with what the step changes."""
    for index, group in enumerate(groups):
        left = groups[index - 1].last + 1 if index else 0
        right = groups[index + 1].first - 1 if index + 1 < len(groups) else length - 1
        others = (groups[:index], groups[index + 1 :])
        # Take in the single layer before or after.
        if group.first > left and local[group.first - 1]:
            yield (*others[0], InjectedGroup(group.first - 1, group.last, None), *others[1]), "cuts"
        if group.last < right and local[group.last + 1]:
            yield (*others[0], InjectedGroup(group.first, group.last + 1, None), *others[1]), "cuts"
        if index + 1 < len(groups) and group.last + 1 == groups[index + 1].first:
            after = groups[index + 1]
            yield (*others[0], InjectedGroup(group.first, after.last, None), *groups[index + 2 :]), "cuts"
            for shift in (-1, 1, -2, 2):
                cut = group.last + shift
                if group.first < cut < after.last - 1:
                    moved = (InjectedGroup(group.first, cut, None), InjectedGroup(cut + 1, after.last, None))
                    yield (*others[0], *moved, *groups[index + 2 :]), "cuts"
        if group.slices is not None and group.slices.h > 1:
            for h in (group.slices.h - 1, group.slices.h + 1):
                yield (*others[0], replace(group, slices=SliceCount(group.slices.n, h)), *others[1]), "slices"
        if group.slices is not None and group.slices.n > 1:
            yield (*others[0], replace(group, slices=SliceCount(group.slices.n - 1, 1)), *others[1]), "slices"
        # Leave out the first or last layer, or split in the middle.
        if group.last - group.first >= 2:
            yield (*others[0], InjectedGroup(group.first, group.last - 1, None), *others[1]), "cuts"
            yield (*others[0], InjectedGroup(group.first + 1, group.last, None), *others[1]), "cuts"
        if group.last - group.first >= 5:
            middle = (group.first + group.last) // 2
            halves = (InjectedGroup(group.first, middle, None), InjectedGroup(middle + 1, group.last, None))
            yield (*others[0], *halves, *others[1]), "cuts"


def groups_hold(groups: Sequence[InjectedGroup], graph: GroupGraph, order: Sequence[str]) -> bool:
    """Whether the groups, as they are numbered, hold the same ops in another order: then nothing is searched anew."""
    given = [op.name for op in graph.ops]
    return all(set(given[g.first : g.last + 1]) == set(order[g.first : g.last + 1]) for g in groups)


def other_orders(program: LoweredProgram) -> list[tuple[tuple[str, ...], str]]:
    """Other topological orders of the main function, with its name."""
    function = program.functions[main_function(program)]
    orders = topological_orders(function.graph)
    return [(order, function.name) for name, order in orders.items() if name != "given"]
