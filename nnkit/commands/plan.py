"""`nnkit plan`: the dry run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.commands.common import builds, byte_count, load, print_json, print_line

if TYPE_CHECKING:
    from nnkit.stages import Preview


def plan_command(
    path: Path, targets: list[str], *, no_cache: bool, trust: bool = False, json: bool, verbose: bool
) -> None:
    """What `run` would build: rewrites with reasons, placement, formats, memory. Nothing is written.

    trust: calibration may run the Python of layers that the recipe defines.
    """
    from nnkit.pipeline import preview
    from nnkit.report.progress import Progress

    recipe = load(path)
    results = []
    for made in builds(recipe, targets, Progress(verbose=verbose), use_cache=not no_cache, emulate=False):
        build = replace(made, trusted=trust)
        planned = preview(build)
        estimates = build.target.estimates(planned.settled.lowered, build.options)
        results.append(_as_json(build.key, planned) | {"estimates": dict(estimates)})
        if not json:
            _print(build.key, planned)
            if "line" in estimates:
                print_line(f"  {estimates['line']}")
    if json:
        print_json(results[0] if len(results) == 1 else results)


def _as_json(target: str, planned: Preview) -> dict[str, Any]:
    from nnkit.memory import plan_to_json
    from nnkit.report.layers_csv import layer_table

    return {
        "target": target,
        "calibrated": planned.calibrated,
        "rewrites": planned.restructured.log.report(),
        "segments": [{"placement": s.placement, "layers": list(s.layers)} for s in planned.settled.lowered.segments],
        "formats": {name: str(t.format) for name, t in planned.program.tensors.items()} if planned.calibrated else {},
        "layers": [dict(row) for row in layer_table(planned.program, planned.plan)],
        "plan": plan_to_json(planned.plan),
    }


def _print(target: str, planned: Preview) -> None:
    program, plan = planned.program, planned.plan
    print_line(f"plan for {target}")
    print_line("rewrites")
    idle = []
    for entry in planned.restructured.log.report():
        if not entry["fired"] and not entry["declined"]:
            idle.append(entry["name"])
            continue
        state = f"fires {entry['fired']}x" if entry["fired"] else "does not fire"
        state = entry.get("effect", state)
        print_line(f"  {entry['name']:<26}{state}")
        for move in entry.get("tags", ()):
            print_line(f"    {move}")
        for declined in entry["declined"]:
            print_line(f"    declines at {declined['site']}: {declined['reason']}")
    if idle:
        print_line(f"  nothing to do for          {', '.join(idle)}")
    print_line("placement")
    for segment in planned.settled.lowered.segments:
        first, last = segment.layers[0], segment.layers[-1]
        span = first if first == last else f"{first} .. {last}"
        print_line(f"  {segment.placement:<5}{len(segment.layers)} layers: {span}")
    print_line("layers" + ("" if planned.calibrated else " (no calibration images: formats are not known yet)"))
    rows = []
    for op in program.ops:
        tensor = program.tensors[op.output]
        form = str(tensor.format) if planned.calibrated else f"{tensor.format.bits} bits"
        tags = f" [{', '.join(op.tags)}]" if op.tags else ""
        shape = "x".join(str(side) for side in tensor.shape)
        rows.append((op.name, op.kind, shape, form, op.placement + tags))
    for name, kind, shape, form, place in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip((name, kind, shape, form), _widths(rows), strict=True))
        print_line(f"  {' '.join(cells)} {place}")
    print_line("memory")
    for name, use in plan.regions.items():
        proof = "optimal" if use.proven_optimal else f"lower bound {byte_count(use.lower_bound_bytes)}"
        print_line(f"  {name:<4}{byte_count(use.peak_bytes)} of {byte_count(use.capacity_bytes)} ({proof})")
    print_line(f"  weights {byte_count(plan.l3_weight_bytes)}, planner {plan.planner}")


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    """Of the columns before the last: at least what a common network needs, so that two plans look alike."""
    return [max((least, *(len(row[i]) for row in rows))) for i, least in enumerate((31, 17, 13, 9))]
