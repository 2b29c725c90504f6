"""Our groups for the compiler in a few compilations: what `layer_group: ours` does.

On chips without a simulator of cycles the cost is bytes, and these our plan counts exactly (`counted_bytes.py`).

On the BM chips the cost is cycles, which only the compiler's simulator tells: our plan is compiled, and the
compiler's own groups with one thing changed: without the small ones, in other orders of the layers, with one slice
more. All of them are given to the compiler, whose own search is what takes its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.counted_bytes import OUR_PLAN, attempt_by_bytes, more_transfers
from nnkit_tpu.layer_group.groups import plan_groups
from nnkit_tpu.layer_group.injection import LoweredProgram, Outcome, compile_groups, groups_of
from nnkit_tpu.layer_group.orders import topological_orders
from nnkit_tpu.layer_group.rules import whole_plan_rules
from nnkit_tpu.layer_group.slices import SliceCount
from nnkit_tpu.layer_group.tune import VENDORS_CUTS, Check, Trial, Tuning, groups_hold, main_function, model_from
from nnkit_tpu.layer_group.vendor_files import InjectedGroup
from nnkit_tpu.toolchain.find import Toolchain

MOST_COMPILATIONS = 5  # the compiler's own choice included
FINAL = "final.mlir"
_SMALL = 3  # ops beside the first, below which a group often costs more than its layers alone
_ORDERS = ("last branch first", "least live bytes", "breadth first", "depth first")  # the likeliest to win first


@dataclass(frozen=True, eq=False)
class FewTrials:
    """The comparison. final: the compiler's program after grouping, of the best."""

    tuning: Tuning
    final: Path


def few_trials(
    toolchain: Toolchain, program: LoweredProgram, model: CostModel, folder: Path, check: Check | None = None
) -> FewTrials:
    """The compiler's own groups, and the best of ours within `MOST_COMPILATIONS`.

    folder: takes the compiler's files, in folders of their own. check: as in `tune`.

    Raises ToolError where the compiler cannot compile the program with groups of its own.
    """
    vendor = compile_groups(toolchain, program, keep=folder / "0")
    search = _Search(toolchain, program, vendor, folder, check)
    model = model_from(model, program, vendor)
    if model.counts_bytes:
        attempt_by_bytes(search.attempt, vendor, program, model, search.left)
    else:
        _by_measured_cycles(search, program, model)
    tuning = Tuning(vendor, search.best, search.best_program, search.choice, tuple(search.trials), model)
    return FewTrials(tuning, search.final)


class _Search:
    """Compilations so far, and the best of them."""

    def __init__(
        self, toolchain: Toolchain, program: LoweredProgram, vendor: Outcome, folder: Path, check: Check | None
    ) -> None:
        self.toolchain, self.folder, self.check = toolchain, folder, check
        self.vendor = self.best = vendor
        self.best_program = program
        self.choice = VENDORS_CUTS
        self.final = folder / "0" / FINAL
        self.trials = [Trial(VENDORS_CUTS, vendor.cost)]

    @property
    def left(self) -> int:
        """Compilations that may still be made."""
        return MOST_COMPILATIONS - len(self.trials)

    def attempt(self, program: LoweredProgram, groups: Mapping[str, Sequence[InjectedGroup]], choice: str) -> Outcome:
        """Compile; what is better by the compiler's measure is kept."""
        kept = self.folder / str(len(self.trials))
        outcome = compile_groups(self.toolchain, program, groups, keep=kept)
        better = not outcome.refused and outcome.cost < self.best.cost and not more_transfers(outcome, self.vendor)
        if better and self.check is not None:
            outcome = replace(outcome, refused=self.check(self.vendor, outcome))
        self.trials.append(Trial(choice, None if outcome.refused else outcome.cost, outcome.refused))
        if better and not outcome.refused:
            self.best, self.best_program, self.choice = outcome, program, choice
            self.final = kept / FINAL
        return outcome


def _by_measured_cycles(search: _Search, program: LoweredProgram, model: CostModel) -> None:
    """Our plan, and what lies nearest to the compiler's own groups and won most often where much was tried."""
    rules = whole_plan_rules(program.chip)
    plans = {f.name: plan_groups(f.graph, model, orders=False, rules=rules) for f in program.functions}
    search.attempt(program, {name: groups_of(plan) for name, plan in plans.items()}, OUR_PLAN)
    function = program.functions[main_function(program)]
    groups = search.vendor.groups.get(function.name, ())
    large = tuple(group for group in groups if group.last - group.first >= _SMALL)
    if large != groups:
        search.attempt(program, {**search.vendor.groups, function.name: large}, "cuts")
    finer = _one_slice_more(groups)
    orders = topological_orders(function.graph)
    same = [orders[name] for name in _ORDERS if name in orders and groups_hold(groups, function.graph, orders[name])]
    for order in same[: search.left - (finer is not None)]:
        search.attempt(program.reordered(function.name, order), search.vendor.groups, "op order")
    if finer is not None and search.left:
        search.attempt(program, {**search.vendor.groups, function.name: finer}, "slices")


def _one_slice_more(groups: Sequence[InjectedGroup]) -> tuple[InjectedGroup, ...] | None:
    """The groups with the first that is cut along h cut once more; None: none is."""
    for index, group in enumerate(groups):
        if group.slices is not None and group.slices.h > 1:
            finer = replace(group, slices=SliceCount(group.slices.n, group.slices.h + 1))
            return (*groups[:index], finer, *groups[index + 1 :])
    return None
