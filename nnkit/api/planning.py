"""`nnkit.plan`: the dry run, as typed results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.naming import load_named
from nnkit.api.preparing import Switches, builds
from nnkit.api.results import MemoryUse, Plan, PlannedLayer

if TYPE_CHECKING:
    from nnkit.report.progress import Progress
    from nnkit.stages import Build, Preview


def plan(
    recipe: str | Path,
    *,
    targets: str | Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    cache: bool = True,
) -> tuple[Plan, ...]:
    """What `run` would build, for every wanted target: rewrites, placement, formats and memory. Nothing is written.

    Arguments as of `run`. Raises NnkitError for what could not be built.
    """
    from nnkit.recipe.settings import settings_of
    from nnkit.report.progress import Progress

    wanted = (targets,) if isinstance(targets, str) else tuple(targets)
    named = load_named(Path(recipe), settings_of(settings or {}), wanted)
    made = planned_builds(named.recipe, named.keys, Progress(quiet=True), cache=cache)
    return tuple(plan_of(build) for build in made)


def planned_builds(
    recipe: Any, wanted: Sequence[str], progress: Progress, *, cache: bool, trust: bool = False
) -> list[Build]:
    """The builds that a plan is made of; nothing of them is run but, if trusted, layers that the recipe defines."""
    return builds(recipe, wanted, progress, Switches(cache=cache, emulate=False, trust=trust))


def plan_of(build: Build) -> Plan:
    """The plan of one build. Raises NnkitError."""
    from nnkit.pipeline import preview

    planned = preview(build)
    program = planned.program
    estimates = build.target.estimates(planned.settled.lowered, program, build.options)
    layers = tuple(
        PlannedLayer(
            op.name,
            op.kind,
            op.placement,
            tuple(program.tensors[op.output].shape),
            str(program.tensors[op.output].format) if planned.calibrated else "",
            program.tensors[op.output].format.bits,
            tuple(op.tags),
        )
        for op in program.ops
    )
    memory = {
        name: MemoryUse(use.capacity_bytes, use.peak_bytes, use.lower_bound_bytes, use.proven_optimal, use.limited)
        for name, use in planned.plan.regions.items()
    }
    data = _as_json(build.key, planned) | {"estimates": dict(estimates)}
    return Plan(build.recipe.name, build.key, planned.calibrated, memory, layers, planned.plan.l3_weight_bytes, data)


def _as_json(target: str, planned: Preview) -> dict[str, Any]:
    from nnkit.memory import plan_to_json
    from nnkit.report.layers_csv import layer_table

    tensors = planned.program.tensors
    return {
        "target": target,
        "calibrated": planned.calibrated,
        "rewrites": planned.restructured.log.report(),
        "segments": [{"placement": s.placement, "layers": list(s.layers)} for s in planned.settled.lowered.segments],
        "formats": {name: str(t.format) for name, t in tensors.items()} if planned.calibrated else {},
        "layers": [
            row if planned.calibrated else row | {"format": ""} for row in layer_table(planned.program, planned.plan)
        ],
        "plan": plan_to_json(planned.plan),
        "notes": list(planned.program.notes),
    }
