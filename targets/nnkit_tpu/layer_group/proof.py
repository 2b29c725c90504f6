"""The groups that were chosen, by us or by the compiler, planned by us and executed in local memory.

With our quantised program at hand the chip's integers are computed (`kept_groups.py`). Without it, or where our
planner cannot hold the groups on our ops, the compiler's lowered program is executed as it stands: its ops and packed
weights are the compiler's, and the arithmetic is that of the data flow.
"""

from __future__ import annotations

from typing import Any

from nnkit_tpu.layer_group.executor import Execution, Violation, execute
from nnkit_tpu.layer_group.groups import GroupedGraph, plan_cuts
from nnkit_tpu.layer_group.kept_groups import prove_on_our_ops
from nnkit_tpu.layer_group.report import proof_report
from nnkit_tpu.layer_group.slices import Refusal
from nnkit_tpu.layer_group.tune import Tuning
from nnkit_tpu.program import TpuGraph


def prove(tuning: Tuning) -> Execution | Refusal:
    """Our plan of the chosen groups, executed; a refusal where our planner cannot hold one of them."""
    values = mismatches = steps = loads = stores = 0
    violations: list[Violation] = []
    for function in tuning.program.functions:
        groups = tuning.best.groups.get(function.name, ())
        plan = plan_cuts(function.graph, tuning.model, [(g.first, g.last, g.slices) for g in groups])
        if not isinstance(plan, GroupedGraph):
            return plan
        run = execute(tuning.program.chip, plan.graph, plan.parts)
        values, mismatches, steps = values + run.values, mismatches + run.mismatches, steps + run.steps
        loads, stores = loads + run.load_bytes, stores + run.store_bytes
        violations += run.violations
    return Execution(values, mismatches, tuple(violations), steps, loads, stores)


def choice_report(tuning: Tuning, graph: TpuGraph | None = None) -> dict[str, Any]:
    """The proof as plain values, or why our planner cannot hold the compiler's groups.

    graph: our program, whose INT8 layers compute the chip's integers.
    """
    if graph is not None and any(op.mode == "INT8" for op in graph.ops):
        proven = prove_on_our_ops(tuning, graph)
        if not isinstance(proven, Refusal):
            return proof_report(*proven)
    found = prove(tuning)
    if isinstance(found, Refusal):
        return {"proven": None, "not_planned": f"{found.where}: {found.reason}"}
    return proof_report(found)
