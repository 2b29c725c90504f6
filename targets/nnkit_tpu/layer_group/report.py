"""Plans and comparisons as plain values for `report.json` and `build.json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from nnkit_tpu.chips import Chip
from nnkit_tpu.layer_group.audit import Audit
from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.groups import GroupedGraph
from nnkit_tpu.layer_group.injection import Outcome
from nnkit_tpu.layer_group.plan import GroupPlan
from nnkit_tpu.layer_group.tune import Tuning
from nnkit_tpu.layer_group.vendor_files import Command


def plan_report(chip: Chip, plan: GroupedGraph) -> dict[str, Any]:
    """The groups and single layers of a plan, with the reason for the end of every group.

    layer_cycles: of each layer's arithmetic by itself, by the formulas of `cost`; transfers run beside it.
    """
    model = CostModel(chip)
    layer_of = {op.name: op.layer for op in plan.graph.ops}
    cycles: Counter[str] = Counter()
    for op in plan.graph.ops:
        cycles[op.layer] += model.compute_cycles(plan.graph, op)
    return {
        "chip": chip.name,
        "order": plan.order,
        "estimated_cycles": plan.cycles,
        "overlap_cycles": plan.overlap_cycles,
        "layer_cycles": dict(cycles),
        "load_bytes": plan.load_bytes,
        "store_bytes": plan.store_bytes,
        "groups": [_group(chip, group) for group in plan.groups],
        "global_layers": [part.layer for part in plan.parts if not isinstance(part, GroupPlan)],
        "ends": [
            {"after": layer_of[end.after], "before": layer_of[end.before], "rule": end.rule, "reason": end.reason}
            for end in plan.boundaries
        ],
    }


def tuning_report(tuning: Tuning) -> dict[str, Any]:
    """The vendor's choice beside the best one, by the vendor's measure, every trial, and the audit of the best."""
    audit = tuning.best.audit
    return {
        "choice": tuning.choice,
        "compiler_search": tuning.vendor.set_aside or "ended",
        "gain": tuning.gain,
        "vendor": _outcome(tuning.vendor),
        "ours": _outcome(tuning.best),
        "trials": [
            {"choice": trial.choice, "cost": trial.cost, "refused": trial.refused or None} for trial in tuning.trials
        ],
        "audit": None if audit is None else audit_report(audit),
        "timeline": _timeline(tuning.best.commands),
    }


def _timeline(commands: Sequence[Command]) -> dict[str, list[list[Any]]]:
    """By engine [label, first cycle, cycle behind the last]; what follows without a pause under one label is one."""
    lanes: dict[str, list[list[Any]]] = {"compute": [], "transfers": []}
    for each in sorted(commands, key=lambda command: command.start):
        lane = lanes["compute" if each.computes else "transfers"]
        if lane and lane[-1][0] == each.label and each.start <= lane[-1][2]:
            lane[-1][2] = max(lane[-1][2], each.end)
        else:
            lane.append([each.label, each.start, each.end])
    return lanes


def audit_report(audit: Audit) -> dict[str, Any]:
    """What was replayed, and what could not be."""
    return {
        "groups": audit.groups,
        "actions": audit.actions,
        "conflicts": list(audit.conflicts),
        "not_followed": list(audit.not_followed),
    }


def _group(chip: Chip, group: GroupPlan) -> dict[str, Any]:
    return {
        "ops": [op.layer for op in group.ops],
        "slices": {"n": group.slices.count.n, "h": group.slices.count.h, "counts_tried": group.tried},
        "estimated_cycles": group.cycles,
        "load_bytes": group.load_bytes,
        "store_bytes": group.store_bytes,
        "repeated_rows": group.repeated_rows,
        "lane": {"capacity_bytes": chip.lane_bytes, "live_bytes": group.live_bytes},
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    profile, traffic = outcome.profile, outcome.traffic
    return {
        "cycles": profile.end_cycles if profile is not None else None,
        "dma_cycles": profile.dma_cycles if profile is not None else None,
        "dma_bytes": profile.load_bytes + profile.store_bytes if profile is not None else None,
        "loads": traffic.loads if traffic is not None else None,
        "stores": traffic.stores if traffic is not None else None,
        "bytes": traffic.total_bytes if traffic is not None else None,
        "groups": {
            name: [
                {"first": group.first, "last": group.last, "slices": list(group.slices) if group.slices else None}
                for group in groups
            ]
            for name, groups in outcome.groups.items()
        },
    }
