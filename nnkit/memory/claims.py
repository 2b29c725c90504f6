"""What a memory plan says of itself: where its buffers lie, its peaks, and that no tensor is forgotten.

This holds for the plan of every target, whatever its steps do; `checker` replays those of the fixed-point program.
"""

from __future__ import annotations

from nnkit.errors import InternalError
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Program


def check_claims(program: Program, plan: MemoryPlan) -> None:
    """Raise InternalError unless buffers lie in their regions, peaks are theirs, and each tensor has a place.

    A plan without regions places nothing and claims nothing.
    """
    if not plan.regions:
        return
    check_regions(plan, 1)
    for name in (*program.inputs, *(op.output for op in program.ops)):
        place = plan.places.get(name)
        if place is None or place.buffer not in plan.buffers:
            raise wrong("it has no place", name)
        if place.size_bytes != program.tensors[name].size_bytes:
            raise wrong(f"it has {place.size_bytes} bytes of {program.tensors[name].size_bytes}", name)
        if not 0 <= place.offset_bytes <= plan.buffers[place.buffer].size_bytes - place.size_bytes:
            raise wrong(f"it does not lie in its buffer {place.buffer!r}", name)


def check_regions(plan: MemoryPlan, alignment_bytes: int | dict[str, int]) -> None:
    """Raise InternalError unless buffers lie in their regions, aligned, and the peaks are those of the buffers."""
    peaks = dict.fromkeys(plan.regions, 0)
    last = max(len(plan.steps) - 1, 0)
    for key, buffer in plan.buffers.items():
        if key != buffer.name:
            raise wrong(f"buffer {buffer.name!r} is listed as {key!r}", key)
        if buffer.region not in plan.regions:
            raise wrong(f"it lies in {buffer.region!r}, which is no region", buffer.name)
        step_bytes = alignment_bytes if isinstance(alignment_bytes, int) else alignment_bytes.get(buffer.region, 1)
        if buffer.offset_bytes < 0 or buffer.size_bytes < 0 or buffer.offset_bytes % step_bytes:
            raise wrong(f"offset {buffer.offset_bytes} is not a multiple of {step_bytes}", buffer.name)
        end = buffer.offset_bytes + buffer.size_bytes
        if end > plan.regions[buffer.region].capacity_bytes:
            raise wrong(f"it ends at {end}, beyond {buffer.region}", buffer.name)
        if not 0 <= buffer.first_step <= buffer.last_step <= last:
            raise wrong(f"it lives in steps {buffer.first_step}..{buffer.last_step} of 0..{last}", buffer.name)
        peaks[buffer.region] = max(peaks[buffer.region], end)
    for name, use in plan.regions.items():
        peak = plan.l3_weight_bytes if name == "l3" else peaks[name]
        if use.peak_bytes != peak or not use.lower_bound_bytes <= use.peak_bytes <= use.capacity_bytes:
            raise wrong(
                f"it says peak {use.peak_bytes}, bound {use.lower_bound_bytes}, capacity {use.capacity_bytes}; "
                f"the buffers end at {peak}",
                name,
            )


def wrong(reason: str, where: str) -> InternalError:
    """The error; where: a step, a buffer, a region or a tensor."""
    return InternalError(f"the memory plan is wrong: {reason}", where=where)
