"""A memory plan for a target with one region that holds all tensors."""

from __future__ import annotations

from nnkit.memory.checker import check_plan
from nnkit.memory.lifetimes import choose_storages
from nnkit.memory.placing import place
from nnkit.memory.plan import Buffer, MemoryPlan, Region, RegionUse, Step, TensorPlace
from nnkit.memory.problem import Problem, Request
from nnkit.program import Program


def plan_one_region(program: Program, region: Region) -> MemoryPlan:
    """Tensors that may share bytes do; what lives at once lies apart. Weights lie elsewhere.

    The plan is replayed by the independent checker. Raises DoesNotFitError.
    """
    storages = choose_storages(program)
    requests = tuple(Request(b.name, b.size_bytes, b.first_op, b.last_op) for b in storages.buffers)
    placement = place(Problem((region,), requests))
    buffers = {
        r.name: Buffer(
            r.name,
            "activation",
            region.name,
            placement.places[r.name].offset_bytes,
            r.size_bytes,
            r.first_step,
            r.last_step,
        )
        for r in requests
    }
    places = {
        name: TensorPlace(name, requests[index].name, offset, program.tensors[name].size_bytes)
        for name, (index, offset) in storages.places.items()
    }
    steps = tuple(Step(i, op.name, None, op.inputs, (op.output,)) for i, op in enumerate(program.ops))
    peak = placement.peaks[region.name]
    use = RegionUse(region.capacity_bytes, peak.peak_bytes, peak.lower_bound_bytes, placement.proven_optimal)
    plan = MemoryPlan("general", {region.name: use}, buffers, places, steps, (), 0)
    check_plan(program, plan)
    return plan
