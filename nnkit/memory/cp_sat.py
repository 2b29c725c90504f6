"""CP-SAT, from the extra `[solver]`, on the question "is there a packing within a capacity?".

The model: an offset per item, boxes (time x bytes) that do not overlap, and the redundant constraint that no step
holds more than the capacity. All bytes are divided by the packing's grain, which makes the domains small. One worker,
a fixed seed and a limit in deterministic time: the answer depends on the version alone (`version`), which belongs in
the key of whatever is cached from it.
"""

from __future__ import annotations

import importlib.util
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version

from nnkit.memory.packing import Packing
from nnkit.memory.search import Outcome

NODES_PER_DETERMINISTIC_SECOND = 1_000_000
"""What a budget in nodes buys of CP-SAT's deterministic time: about as long as the compiled search takes for them."""


def is_installed() -> bool:
    """Whether OR-Tools can be imported."""
    return importlib.util.find_spec("ortools") is not None


def version() -> str:
    """Version of OR-Tools, or "" where it is not installed."""
    try:
        return package_version("ortools")
    except PackageNotFoundError:
        return ""


def applies(packing: Packing) -> bool:
    """Whether boxes that do not overlap express `packing`: neither banks nor diagonal overlaps."""
    return not packing.bank_bytes and not packing.reach


def fit_within(packing: Packing, capacity_bytes: int, max_nodes: int, seed: int = 1) -> Outcome:
    """Search for a packing whose peak is at most `capacity_bytes`. Deterministic.

    Args:
        max_nodes: the budget, in nodes of the compiled search (`NODES_PER_DETERMINISTIC_SECOND`).

    Returns:
        The outcome; its nodes are those of the budget that were used.

    Raises:
        ImportError: the extra `[solver]` is not installed.
    """
    from ortools.sat.python import cp_model

    grain = packing.grain_bytes
    capacity = capacity_bytes // grain
    offsets = [item.fixed_offset_bytes or 0 for item in packing.items]
    solid = [i for i, item in enumerate(packing.items) if item.size_bytes]
    model = cp_model.CpModel()
    starts: dict[int, cp_model.LinearExprT] = {}
    times, spans = [], []
    for i in solid:
        item = packing.items[i]
        size = item.size_bytes // grain
        unit = max(1, item.alignment_bytes // grain)
        if size > capacity:
            return Outcome(None, True, 0)
        if item.fixed_offset_bytes is not None:
            starts[i] = item.fixed_offset_bytes // grain
            if item.fixed_offset_bytes + item.size_bytes > capacity_bytes:
                return Outcome(None, True, 0)
        else:
            starts[i] = unit * model.new_int_var(0, (capacity - size) // unit, f"o{i}")
        length = item.last_step - item.first_step + 1
        times.append(model.new_fixed_size_interval_var(item.first_step, length, f"t{i}"))
        spans.append(model.new_fixed_size_interval_var(starts[i], size, f"s{i}"))
    if not solid:
        return Outcome(offsets, False, 0)
    model.add_no_overlap_2d(times, spans)
    model.add_cumulative(times, [packing.items[i].size_bytes // grain for i in solid], capacity)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = max_nodes / NODES_PER_DETERMINISTIC_SECOND
    solver.parameters.use_energetic_reasoning_in_no_overlap_2d = True
    status = solver.solve(model)
    used = min(max_nodes, round(solver.response_proto.deterministic_time * NODES_PER_DETERMINISTIC_SECOND))
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        for i in solid:
            offsets[i] = solver.value(starts[i]) * grain
        return Outcome(offsets, False, used)
    return Outcome(None, status == cp_model.INFEASIBLE, used)
