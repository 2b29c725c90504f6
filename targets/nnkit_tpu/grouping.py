"""Layer groups of a build: nnkit's own plan as an estimate, and which groups the compiler is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnkit_tpu.chips import chip_named
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.few_trials import FINAL, few_trials
from nnkit_tpu.layer_group.from_program import group_graph
from nnkit_tpu.layer_group.groups import plan_groups
from nnkit_tpu.layer_group.injection import (
    LoweredProgram,
    Outcome,
    compile_groups,
    compile_without_groups,
)
from nnkit_tpu.layer_group.report import plan_report, tuning_report
from nnkit_tpu.layer_group.tune import VENDORS_CUTS, Budget, Trial, Tuning, tune
from nnkit_tpu.layer_group.vendor_files import InjectedGroup
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuGraph
from nnkit_tpu.toolchain import Toolchain

QUICK_CUTS = "as many layers as fit"
NO_GROUPS = "no groups"
RIGHT_GROUPS = "the groups that compute what they should"
_MOST_WRONG = 3


@dataclass(frozen=True, eq=False)
class Choice:
    """What the compiler made of the groups that were chosen. final: its program after grouping. program: what the
    groups are of."""

    outcome: Outcome
    final: Path
    report: dict[str, Any]
    program: LoweredProgram


def own_plan(graph: TpuGraph, chip_name: str, check: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """nnkit's plan of the groups of its own ops, made without the compiler: an estimate, not what is compiled.

    check: as in `plan_groups`.
    """
    chip = chip_named(chip_name)
    model = CostModel(chip, counts_bytes=chip.is_cv)
    return plan_report(chip, plan_groups(group_graph(graph, chip), model, orders=False, check=check))


def choose_groups(toolchain: Toolchain, program: LoweredProgram, options: TpuOptions, folder: Path) -> Choice:
    """Compile with the groups that the recipe asks for, or with the compiler's own where nnkit cannot read the
    lowered program. Raises ToolError where the compiler fails.

    folder: takes the compiler's files, in folders of their own.
    """
    if options.layer_group == "measured" and not program.unread:
        budget = Budget(options.budget.groups, options.budget.steps, options.budget.orders)
        tuning = tune(toolchain, program, CostModel(program.chip), budget)
        given = tuning.best.groups if tuning.best is not tuning.vendor else None
        best = folder / "best"
        outcome = compile_groups(toolchain, tuning.program, given, keep=best)
        return Choice(outcome, best / FINAL, _report(options, tuning), tuning.program)
    model = CostModel(program.chip, counts_bytes=program.chip.is_cv)
    if options.layer_group == "ours" and not program.unread:
        few = few_trials(toolchain, program, model, folder)
        return Choice(few.tuning.best, few.final, _report(options, few.tuning), few.tuning.program)
    search = options.layer_group != "quick"
    name = VENDORS_CUTS if search else QUICK_CUTS
    vendor = compile_groups(toolchain, program, keep=folder / "vendor", search=search)
    tuning = Tuning(vendor, vendor, program, name, (Trial(name, vendor.cost),), model)
    return Choice(vendor, folder / "vendor" / FINAL, _report(options, tuning), program)


def without_wrong_groups(
    toolchain: Toolchain,
    chosen: Choice,
    options: TpuOptions,
    folder: Path,
    reason: str,
    is_wrong: Callable[[Outcome], bool],
) -> Choice:
    """The groups that were chosen but for those in which the compiler's code computes something else; where these are
    not found, the compiler's own, and where they are wrong, none. Raises ToolError where the compiler fails.

    The groups are given from the first on: the first with which the outputs are wrong is left out, and so on, up to
    `_MOST_WRONG` of them. is_wrong: runs what was compiled; reason: of the outcome that was chosen.
    """
    program = chosen.program
    kept = [(name, group) for name, groups in chosen.outcome.groups.items() for group in groups]
    dropped: list[tuple[str, InjectedGroup]] = []

    def compiled(groups: Sequence[tuple[str, InjectedGroup]], keep: Path | None = None) -> Outcome:
        given = {each.name: [group for name, group in groups if name == each.name] for each in program.functions}
        return compile_groups(toolchain, program, given, keep=keep)

    def fails(outcome: Outcome) -> bool:
        return bool(outcome.refused) or is_wrong(outcome)

    while kept and len(dropped) < _MOST_WRONG and program.functions:
        right, wrong = 0, len(kept)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if fails(compiled(kept[:middle])):
                wrong = middle
            else:
                right = middle
        dropped.append(kept.pop(wrong - 1))
        left = compiled(kept, folder / "left")
        if kept and not fails(left):
            names = {each.name: each.graph.ops for each in program.functions}
            ends = [f"{names[name][each.first].name} to {names[name][each.last].name}" for name, each in dropped]
            left = replace(left, set_aside=f"{reason}: layers alone stand in for the groups of {', '.join(ends)}")
            tuning = Tuning(left, left, program, RIGHT_GROUPS, (Trial(RIGHT_GROUPS, left.cost),), _model(program))
            return Choice(left, folder / "left" / FINAL, _report(options, tuning), program)
    own = compile_groups(toolchain, program, keep=folder / "own")
    if not is_wrong(own):
        own = replace(own, set_aside=f"{reason}: the compiler's own groups stand in")
        tuning = Tuning(own, own, program, VENDORS_CUTS, (Trial(VENDORS_CUTS, own.cost),), _model(program))
        return Choice(own, folder / "own" / FINAL, _report(options, tuning), program)
    return without_groups(toolchain, program, options, folder / "alone", reason)


def _model(program: LoweredProgram) -> CostModel:
    return CostModel(program.chip, counts_bytes=program.chip.is_cv)


def without_groups(
    toolchain: Toolchain, program: LoweredProgram, options: TpuOptions, folder: Path, reason: str
) -> Choice:
    """Compile every layer alone. reason: why groups do not stand. Raises ToolError where the compiler fails."""
    alone = compile_without_groups(toolchain, program, folder, reason)
    trials = (Trial(NO_GROUPS, alone.cost),)
    tuning = Tuning(alone, alone, program, NO_GROUPS, trials, CostModel(program.chip))
    return Choice(alone, folder / FINAL, _report(options, tuning), program)


def _report(options: TpuOptions, tuning: Tuning) -> dict[str, Any]:
    """The comparison of the groups that were tried, with the audit of those that were kept."""
    return {
        "asked": options.layer_group,
        **tuning_report(tuning),
        "not_planned": tuning.program.unread or None,
    }
