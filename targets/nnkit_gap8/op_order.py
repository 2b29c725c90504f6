"""Another order of the ops where it lowers the L2 peak: found on the graph, kept only if its plan is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from nnkit.errors import DoesNotFitError
from nnkit.memory.lifetimes import choose_storages
from nnkit.memory.op_order import find_order
from nnkit.memory.plan import MemoryPlan
from nnkit.memory.program_order import graph_of, reordered
from nnkit.program import Program


def with_least_peak(program: Program, plan: Callable[[Program], MemoryPlan]) -> Program:
    """`program`, or the same ops in an order whose planned L2 peak is smaller.

    The search counts live tensors; storages (concatenations in place) and the plan with its weights decide. A
    program in which ops run on the controller keeps its order, which its segments are cut by.

    Args:
        plan: the target's planner.
    """
    if any(op.placement != "npu" for op in program.ops):
        return program
    search = find_order(graph_of(program))
    if search.method == "given":
        return program
    candidate = reordered(program, search.order)
    if max(choose_storages(candidate).live_bytes(len(program.ops))) >= max(
        choose_storages(program).live_bytes(len(program.ops))
    ):
        return program
    given, better = _peak_bytes(program, plan), _peak_bytes(candidate, plan)
    if better is None or (given is not None and better >= given):
        return program
    was = "more than fits" if given is None else f"{given:,} bytes"
    note = f"the ops run in another order: {better:,} bytes of L2 instead of {was}"
    return replace(candidate, notes=(*candidate.notes, note))


def _peak_bytes(program: Program, plan: Callable[[Program], MemoryPlan]) -> int | None:
    try:
        return plan(program).regions["l2"].peak_bytes
    except DoesNotFitError:
        return None
