"""Layer groups of a build: our plan with its proof, and which groups the compiler is given."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnkit_tpu.layer_group.chip_arithmetic import ChipArithmetic
from nnkit_tpu.layer_group.chips import chip_named
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.executor import execute
from nnkit_tpu.layer_group.from_program import group_graph
from nnkit_tpu.layer_group.groups import plan_groups
from nnkit_tpu.layer_group.injection import LoweredProgram, Outcome, compile_groups, groups_of
from nnkit_tpu.layer_group.proof import choice_report
from nnkit_tpu.layer_group.report import plan_report, tuning_report
from nnkit_tpu.layer_group.tune import VENDORS_CUTS, Budget, Trial, Tuning, model_from, tune
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.program import TpuGraph
from nnkit_tpu.toolchain import Toolchain

FINAL = "final.mlir"
_PARTS_OF_MEMORY = (1.0, 0.85, 0.7, 0.5)


@dataclass(frozen=True, eq=False)
class Choice:
    """What the compiler made of the groups that were chosen. final: its program after grouping."""

    outcome: Outcome
    final: Path
    report: dict[str, Any]


def own_plan(graph: TpuGraph, chip_name: str) -> dict[str, Any]:
    """nnkit's plan of the groups, made without the compiler, and its proof by the local-memory executor."""
    chip = chip_named(chip_name)
    ops = group_graph(graph, chip)
    model = CostModel(chip, counts_bytes=chip_name.startswith("cv"))
    plan = plan_groups(ops, model, orders=False)
    arithmetic = ChipArithmetic(graph, ops)
    return plan_report(chip, plan, execute(chip, plan.graph, plan.parts, arithmetic=arithmetic), arithmetic)


def choose_groups(toolchain: Toolchain, program: LoweredProgram, options: TpuOptions, folder: Path) -> Choice:
    """Compile with the groups that the recipe asks for. Raises ToolError where the compiler fails.

    folder: takes the compiler's files, in folders of their own.
    """
    if options.layer_group == "measured":
        budget = Budget(options.budget.groups, options.budget.steps, options.budget.orders)
        tuning = tune(toolchain, program, CostModel(program.chip), budget)
        given = tuning.best.groups if tuning.best is not tuning.vendor else None
        best = folder / "best"
        outcome = compile_groups(toolchain, tuning.program, given, keep=best)
        return Choice(outcome, best / FINAL, _report(options, tuning))
    model = CostModel(program.chip, counts_bytes=program.chip.name.startswith("cv"))
    vendor = compile_groups(toolchain, program, keep=folder / "vendor")
    tuning = Tuning(vendor, vendor, program, VENDORS_CUTS, (Trial(VENDORS_CUTS, vendor.cost),), model)
    if options.layer_group == "ours":
        tuning = _with_ours(toolchain, tuning, folder / "ours")
    kept = folder / ("vendor" if tuning.best is vendor else "ours")
    return Choice(tuning.best, kept / FINAL, _report(options, tuning))


def _report(options: TpuOptions, tuning: Tuning) -> dict[str, Any]:
    """The comparison, and the proof of the groups that were kept."""
    return {"asked": options.layer_group, **tuning_report(tuning), "proof": choice_report(tuning)}


def _with_ours(toolchain: Toolchain, tuning: Tuning, folder: Path) -> Tuning:
    """Our plan of the lowered program compiled too; the better is kept, by the compiler's own measure.

    The compiler's placement is looser than ours and refuses what we can place: then our plan for a smaller local
    memory is tried, three times at most.
    """
    program, vendor = tuning.program, tuning.vendor
    model = model_from(tuning.model, program, vendor)
    trials = list(tuning.trials)
    tried: list[object] = []
    for part in _PARTS_OF_MEMORY:
        chip = replace(model.chip, lane_bytes=int(model.chip.lane_bytes * part) // 1024 * 1024)
        smaller = replace(model, chip=chip)
        planned = {f.name: groups_of(plan_groups(f.graph, smaller, orders=False)) for f in program.functions}
        if planned in tried:
            continue
        tried.append(planned)
        shutil.rmtree(folder, ignore_errors=True)  # what a refused compilation left
        ours = compile_groups(toolchain, program, planned, keep=folder)
        name = "our plan" if part == 1.0 else f"our plan for {part:.0%} of the local memory"
        trials.append(Trial(name, None if ours.refused else ours.cost, ours.refused))
        if ours.refused:
            continue
        fewer = ours.profile is not None or not _more_transfers(ours, vendor)
        if ours.cost < vendor.cost and fewer:
            return Tuning(vendor, ours, program, name, tuple(trials), model)
        break
    return Tuning(vendor, vendor, program, VENDORS_CUTS, tuple(trials), model)


def _more_transfers(ours: Outcome, vendor: Outcome) -> bool:
    """On chips without a profile, fewer bytes must not come from more loads or stores."""
    if ours.traffic is None or vendor.traffic is None:
        return False
    return ours.traffic.loads > vendor.traffic.loads or ours.traffic.stores > vendor.traffic.stores
