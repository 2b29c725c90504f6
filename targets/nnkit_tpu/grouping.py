"""Layer groups of a build: nnkit's own plan as an estimate, and which groups the compiler is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuGraph
from nnkit_tpu.toolchain import Toolchain

QUICK_CUTS = "as many layers as fit"
NO_GROUPS = "no groups"


@dataclass(frozen=True, eq=False)
class Choice:
    """What the compiler made of the groups that were chosen. final: its program after grouping."""

    outcome: Outcome
    final: Path
    report: dict[str, Any]


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
        return Choice(outcome, best / FINAL, _report(options, tuning))
    model = CostModel(program.chip, counts_bytes=program.chip.is_cv)
    if options.layer_group == "ours" and not program.unread:
        few = few_trials(toolchain, program, model, folder)
        return Choice(few.tuning.best, few.final, _report(options, few.tuning))
    search = options.layer_group != "quick"
    name = VENDORS_CUTS if search else QUICK_CUTS
    vendor = compile_groups(toolchain, program, keep=folder / "vendor", search=search)
    tuning = Tuning(vendor, vendor, program, name, (Trial(name, vendor.cost),), model)
    return Choice(vendor, folder / "vendor" / FINAL, _report(options, tuning))


def without_groups(
    toolchain: Toolchain, program: LoweredProgram, options: TpuOptions, folder: Path, reason: str
) -> Choice:
    """Compile every layer alone. reason: why groups do not stand. Raises ToolError where the compiler fails."""
    alone = compile_without_groups(toolchain, program, folder, reason)
    trials = (Trial(NO_GROUPS, alone.cost),)
    tuning = Tuning(alone, alone, program, NO_GROUPS, trials, CostModel(program.chip))
    return Choice(alone, folder / FINAL, _report(options, tuning))


def _report(options: TpuOptions, tuning: Tuning) -> dict[str, Any]:
    """The comparison of the groups that were tried, with the audit of those that were kept."""
    return {
        "asked": options.layer_group,
        **tuning_report(tuning),
        "not_planned": tuning.program.unread or None,
    }
