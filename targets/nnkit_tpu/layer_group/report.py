"""Plans and comparisons as plain values for `report.json` and `plan.json`."""

from __future__ import annotations

from typing import Any

from nnkit_tpu.layer_group.chip_arithmetic import ChipArithmetic
from nnkit_tpu.layer_group.chips import Chip
from nnkit_tpu.layer_group.executor import Execution
from nnkit_tpu.layer_group.groups import GroupedGraph
from nnkit_tpu.layer_group.injection import Outcome
from nnkit_tpu.layer_group.plan import GroupPlan
from nnkit_tpu.layer_group.tune import Tuning


def plan_report(
    chip: Chip, plan: GroupedGraph, execution: Execution | None = None, arithmetic: ChipArithmetic | None = None
) -> dict[str, Any]:
    """Groups, single layers, the reason for every end, and the proof (None: not executed).

    arithmetic: what the proof computed with, where it was the chip's.
    """
    return {
        "chip": chip.name,
        "order": plan.order,
        "estimated_cycles": plan.cycles,
        "overlap_cycles": plan.overlap_cycles,
        "load_bytes": plan.load_bytes,
        "store_bytes": plan.store_bytes,
        "groups": [_group(chip, group) for group in plan.groups],
        "global_layers": [part.name for part in plan.parts if not isinstance(part, GroupPlan)],
        "ends": [
            {"after": end.after, "before": end.before, "rule": end.rule, "reason": end.reason}
            for end in plan.boundaries
        ],
        "proof": None if execution is None else proof_report(execution, arithmetic),
    }


def tuning_report(tuning: Tuning) -> dict[str, Any]:
    """The vendor's choice beside ours, by the vendor's measure, and every trial."""
    return {
        "choice": tuning.choice,
        "gain": tuning.gain,
        "vendor": _outcome(tuning.vendor),
        "ours": _outcome(tuning.best),
        "trials": [
            {"choice": trial.choice, "cost": trial.cost, "refused": trial.refused or None} for trial in tuning.trials
        ],
    }


def _group(chip: Chip, group: GroupPlan) -> dict[str, Any]:
    placement, schedule = group.placement, group.schedule
    return {
        "ops": [op.name for op in group.ops],
        "slices": {"n": group.slices.count.n, "h": group.slices.count.h, "counts_tried": group.tried},
        "estimated_cycles": group.cycles,
        "period_steps": schedule.period,
        "load_bytes": group.load_bytes,
        "store_bytes": group.store_bytes,
        "repeated_rows": group.repeated_rows,
        "lane": {
            "capacity_bytes": chip.lane_bytes,
            "peak_bytes": placement.peak_bytes,
            "lower_bound_bytes": placement.lower_bound_bytes,
            "placed_by": placement.method,
            "bank_crossings": placement.bank_crossings,
            "bank_conflict_steps": placement.bank_conflicts,
            "in_place": list(placement.in_place),
        },
        "transfers": [
            {"kind": transfer.kind, "tensor": transfer.tensor, "step": transfer.step, "resident": transfer.resident}
            for transfer in schedule.transfers
        ],
        "addresses": dict(placement.addresses),
    }


def proof_report(execution: Execution, arithmetic: ChipArithmetic | None = None) -> dict[str, Any]:
    """What a run in local memory gave.

    layers_with_the_chips_arithmetic: how many computed the chip's integers; the others, named with the reason,
    computed integers that follow the data flow alone. Without `arithmetic` all did.
    """
    return {
        "layers_with_the_chips_arithmetic": len(arithmetic.exact) if arithmetic is not None else 0,
        "layers_with_data_flow_arithmetic": dict(arithmetic.without) if arithmetic is not None else "all",
        "proven": execution.proven,
        "values": execution.values,
        "mismatches": execution.mismatches,
        "steps": execution.steps,
        "violations": [
            {"step": violation.step, "where": violation.where, "reason": violation.reason}
            for violation in execution.violations
        ],
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
