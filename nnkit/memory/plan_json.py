"""A MemoryPlan as JSON data (`plan.json`) and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from nnkit.errors import UserFileError
from nnkit.memory.plan import Buffer, MemoryPlan, RegionUse, Step, TensorPlace, WeightChunk

VERSION = 1

_Part = TypeVar("_Part")


def plan_to_json(plan: MemoryPlan) -> dict[str, Any]:
    """The plan as JSON data: objects by name for regions, buffers and tensors, lists for steps and chunks."""
    return {
        "version": VERSION,
        "planner": plan.planner,
        "regions": {name: asdict(use) for name, use in plan.regions.items()},
        "buffers": {name: asdict(buffer) for name, buffer in plan.buffers.items()},
        "tensors": {name: asdict(place) for name, place in plan.places.items()},
        "steps": [asdict(step) | {"reads": list(step.reads), "writes": list(step.writes)} for step in plan.steps],
        "chunks": [asdict(chunk) for chunk in plan.chunks],
        "l3_weight_bytes": plan.l3_weight_bytes,
        "notes": list(plan.notes),
    }


def plan_from_json(data: Mapping[str, Any], where: str = "plan.json") -> MemoryPlan:
    """The plan that `plan_to_json` wrote.

    Raises:
        UserFileError: the data is not a memory plan, or one of another version.
    """
    if not isinstance(data, Mapping) or data.get("version") != VERSION:
        raise UserFileError("this is not a memory plan of this version", where=where, remedy="build it again")
    try:
        return MemoryPlan(
            planner=data["planner"],
            regions={name: _part(RegionUse, entry) for name, entry in data["regions"].items()},
            buffers={name: _part(Buffer, entry) for name, entry in data["buffers"].items()},
            places={name: _part(TensorPlace, entry) for name, entry in data["tensors"].items()},
            steps=tuple(
                _part(Step, entry | {"reads": tuple(entry["reads"]), "writes": tuple(entry["writes"])})
                for entry in data["steps"]
            ),
            chunks=tuple(_part(WeightChunk, entry) for entry in data["chunks"]),
            l3_weight_bytes=data["l3_weight_bytes"],
            notes=tuple(data["notes"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UserFileError(f"this memory plan is damaged ({error})", where=where, remedy="build it again") from error


def _part(kind: type[_Part], entry: Mapping[str, Any]) -> _Part:
    names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    if set(entry) != names:
        raise KeyError(", ".join(sorted(set(entry) ^ names)))
    return kind(**entry)
