"""Groups of least bytes, for chips of which nobody tells the cycles.

The bytes that the compiler's final program loads and stores follow from cuts and slices alone, and our plan counts
them exactly (but for rows that nobody reads, which the compiler loads with the last slice). It is made for several
orders of the layers, keeping to what the compiler can cut and place (`rules.py`), and compiled. A group that the
compiler refuses all the same is ruled out and the plan made anew; where fewer bytes take more loads or stores than
the compiler's own groups, each transfer is charged more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from nnkit_tpu.layer_group.cost import CostModel
from nnkit_tpu.layer_group.groups import Ban, Intervals, plan_groups
from nnkit_tpu.layer_group.injection import LoweredProgram, Outcome, groups_of
from nnkit_tpu.layer_group.rules import compiler_rules
from nnkit_tpu.layer_group.vendor_files import InjectedGroup

Attempt: TypeAlias = Callable[[LoweredProgram, Mapping[str, Sequence[InjectedGroup]], str], Outcome]
OUR_PLAN = "our plan"
_SMALLER_MEMORIES = (0.85, 0.7)
_SHARES = (1.0, 0.75, 0.5)  # of a refused group, that no other may hold
_MOST_TRANSFER_BYTES = 1 << 16


def attempt_by_bytes(attempt: Attempt, vendor: Outcome, program: LoweredProgram, model: CostModel, most: int) -> None:
    """Our plan, made anew without the groups that the compiler names as those it cannot place.

    A group that is hardly smaller is mostly refused too: with every refusal less of what is named may stay together.
    vendor: the outcome of the compiler's own groups. most: compilations.
    """
    rules = compiler_rules(program.chip)
    bans: list[Ban] = []
    parts = iter(_SMALLER_MEMORIES)
    known: Intervals = {}
    before: object = None
    for _ in range(most):
        ordered = program
        planned: dict[str, tuple[InjectedGroup, ...]] = {}
        for function in program.functions:
            plan = plan_groups(function.graph, model, bans=bans, rules=rules, known=known)
            planned[function.name] = groups_of(plan)
            if plan.order != "given":
                ordered = ordered.reordered(function.name, [op.name for op in plan.graph.ops])
        if (ordered.text, planned) == before:
            return
        before = (ordered.text, planned)
        outcome = attempt(ordered, planned, OUR_PLAN if ordered is program else f"{OUR_PLAN}, op order")
        if not outcome.refused:
            if not more_transfers(outcome, vendor) or model.transfer_bytes > _MOST_TRANSFER_BYTES:
                return
            model, known = replace(model, transfer_bytes=8 * model.transfer_bytes), {}
            continue
        if outcome.culprit is not None:
            name, group = outcome.culprit
            graph = next(function.graph for function in ordered.functions if function.name == name)
            ops = frozenset(op.name for op in graph.ops[group.first : group.last + 1])
            bans.append(Ban(ops, _SHARES[min(len(bans), len(_SHARES) - 1)]))
            continue
        part = next(parts, None)
        if part is None:
            return
        model, known = for_memory(model, program, part), {}


def more_transfers(outcome: Outcome, vendor: Outcome) -> bool:
    """On chips without a profile, fewer bytes must not come from more loads or stores."""
    if outcome.profile is not None or outcome.traffic is None or vendor.traffic is None:
        return False
    return outcome.traffic.loads > vendor.traffic.loads or outcome.traffic.stores > vendor.traffic.stores


def for_memory(model: CostModel, program: LoweredProgram, part: float) -> CostModel:
    """The model with this part of the chip's local memory, in whole KiB."""
    chip = replace(model.chip, lane_bytes=int(program.chip.lane_bytes * part) // 1024 * 1024)
    return replace(model, chip=chip)
