"""Our groups for the compiler in a few compilations: what `layer_group: ours` does.

On chips without a simulator of cycles the cost is bytes, and these our plan counts exactly: it is made for several
orders of the layers, keeping to what the compiler can cut and place (`rules.py`), and compiled. A group that the
compiler refuses all the same is ruled out and the plan made anew; where fewer bytes take more loads or stores, each
transfer is charged more.

On the BM chips the cost is cycles, which only the compiler's simulator tells: our plan is compiled, our plan for less
memory where it is refused, and the compiler's own groups in other orders of the layers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnkit.errors import ToolError
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.groups import Intervals, plan_groups
from nnkit_tpu.layer_group.injection import LoweredProgram, Outcome, compile_groups, groups_of
from nnkit_tpu.layer_group.rules import compiler_rules
from nnkit_tpu.layer_group.tune import VENDORS_CUTS, Check, Trial, Tuning, model_from, more_transfers, other_orders
from nnkit_tpu.layer_group.vendor_files import InjectedGroup
from nnkit_tpu.toolchain.find import Toolchain

MOST_COMPILATIONS = 5  # the compiler's own choice included
FINAL = "final.mlir"
OUR_PLAN = "our plan"
_PARTS_OF_MEMORY = (1.0, 0.85, 0.7)
_MOST_TRANSFER_BYTES = 1 << 16


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
        _by_counted_bytes(search, program, model)
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

    def attempt(
        self, program: LoweredProgram, groups: Mapping[str, Sequence[InjectedGroup]] | None, choice: str
    ) -> Outcome:
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


def _by_counted_bytes(search: _Search, program: LoweredProgram, model: CostModel) -> None:
    """Our plan, made anew without the groups that the compiler names as those it cannot place."""
    rules = compiler_rules(program.chip)
    forbidden: frozenset[tuple[str, ...]] = frozenset()
    parts = iter(_PARTS_OF_MEMORY[1:])
    known: Intervals = {}
    before: object = None
    while search.left:
        ordered = program
        planned: dict[str, tuple[InjectedGroup, ...]] = {}
        for function in program.functions:
            plan = plan_groups(function.graph, model, forbidden=forbidden, rules=rules, known=known)
            planned[function.name] = groups_of(plan)
            if plan.order != "given":
                ordered = ordered.reordered(function.name, [op.name for op in plan.graph.ops])
        if (ordered.text, planned) == before:
            return
        before = (ordered.text, planned)
        outcome = search.attempt(ordered, planned, OUR_PLAN if ordered is program else f"{OUR_PLAN}, op order")
        if not outcome.refused:
            if not more_transfers(outcome, search.vendor) or model.transfer_bytes > _MOST_TRANSFER_BYTES:
                return
            model, known = replace(model, transfer_bytes=8 * model.transfer_bytes), {}
            continue
        if outcome.culprit is not None:
            name, group = outcome.culprit
            graph = next(function.graph for function in ordered.functions if function.name == name)
            forbidden |= {tuple(op.name for op in graph.ops[group.first : group.last + 1])}
            continue
        part = next(parts, None)
        if part is None:
            return
        model, known = _for_memory(model, program, part), {}


def _by_measured_cycles(search: _Search, program: LoweredProgram, model: CostModel) -> None:
    """Our plan, for less memory where it is refused, then the compiler's groups in other orders of the layers."""
    tried: list[object] = []
    for part in _PARTS_OF_MEMORY:
        smaller = _for_memory(model, program, part)
        planned = {f.name: groups_of(plan_groups(f.graph, smaller, orders=False)) for f in program.functions}
        if planned in tried:
            continue
        tried.append(planned)
        name = OUR_PLAN if part == 1.0 else f"{OUR_PLAN} for {part:.0%} of the local memory"
        if not search.attempt(program, planned, name).refused:
            break
    for order, function in other_orders(program)[: search.left]:
        try:
            search.attempt(program.reordered(function, order), None, "op order")
        except ToolError as error:
            search.trials.append(Trial("op order", None, error.reason))


def _for_memory(model: CostModel, program: LoweredProgram, part: float) -> CostModel:
    """The model with this part of the chip's local memory, in whole KiB."""
    chip = replace(model.chip, lane_bytes=int(program.chip.lane_bytes * part) // 1024 * 1024)
    return replace(model, chip=chip)
