"""Where a step writes its result over the input that it still reads: what a plan says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nnkit.memory.accesses import Accesses
from nnkit.memory.plan import MemoryPlan, Overlap


def with_overlaps(plan: MemoryPlan, accesses: Sequence[Accesses | None]) -> MemoryPlan:
    """The plan with every overlap of a result and the input that its step still reads; accesses: of each step."""
    overlaps = []
    for step, each in zip(plan.steps, accesses, strict=True):
        if each is None or not step.reads:
            continue
        read, written = plan.places.get(step.reads[0]), plan.places.get(step.writes[0])
        if read is None or written is None or read.buffer == written.buffer:
            continue
        above, below = plan.buffers[read.buffer], plan.buffers[written.buffer]
        ends = (buffer.offset_bytes + buffer.size_bytes for buffer in (above, below))
        if above.region == below.region and max(above.offset_bytes, below.offset_bytes) < min(ends):
            overlaps.append(Overlap(step.index, read.tensor, written.tensor, each))
    return replace(plan, overlaps=tuple(overlaps))
