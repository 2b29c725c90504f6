"""A MemoryPlan as JSON data (`plan.json`)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nnkit.memory.plan import MemoryPlan

VERSION = 2
"""Since 2 it has `overlaps`."""


def plan_to_json(plan: MemoryPlan) -> dict[str, Any]:
    """The plan as JSON data: objects by name for regions, buffers and tensors, lists for steps, chunks and overlaps.

    An overlap's `distance_bytes` is the least from the start of what is written up to that of what is read.
    """
    return {
        "version": VERSION,
        "planner": plan.planner,
        "regions": {name: asdict(use) for name, use in plan.regions.items()},
        "buffers": {name: asdict(buffer) for name, buffer in plan.buffers.items()},
        "tensors": {name: asdict(place) for name, place in plan.places.items()},
        "steps": [asdict(step) | {"reads": list(step.reads), "writes": list(step.writes)} for step in plan.steps],
        "chunks": [asdict(chunk) for chunk in plan.chunks],
        "l3_weight_bytes": plan.l3_weight_bytes,
        "overlaps": [
            asdict(overlap) | {"distance_bytes": overlap.accesses.distance_bytes} for overlap in plan.overlaps
        ],
        "notes": list(plan.notes),
    }
