"""`nnkit plan`: the dry run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.naming import load_named
from nnkit.api.planning import plan_of, planned_builds
from nnkit.commands.common import byte_count, not_built, print_json
from nnkit.errors import NnkitError, raise_failed
from nnkit.terminal import print_line

if TYPE_CHECKING:
    from nnkit.api import Plan
    from nnkit.api.drafting import OfModel
    from nnkit.recipe.settings import Setting


def plan_command(
    path: Path,
    targets: list[str],
    *,
    given: OfModel,
    settings: Sequence[Setting],
    no_cache: bool,
    trust: bool = False,
    json: bool,
    verbose: bool,
) -> None:
    """What `run` would build: rewrites with reasons, placement, formats, memory. Nothing is written.

    path: a recipe, or a network, which is planned by its first recipe. trust: calibration may run the Python of
    layers that the recipe defines.
    """
    from nnkit.api.drafting import drafted_aside

    with drafted_aside(path, targets, given) as (recipe, names):
        _plan(recipe, names, settings=settings, no_cache=no_cache, trust=trust, json=json, verbose=verbose)


def _plan(
    path: Path,
    targets: Sequence[str],
    *,
    settings: Sequence[Setting],
    no_cache: bool,
    trust: bool,
    json: bool,
    verbose: bool,
) -> None:
    from nnkit.recipe.deployment_loading import is_deployment
    from nnkit.report.progress import Progress

    if is_deployment(path, settings):
        from nnkit.commands.deployment import plan_deployment_command

        plan_deployment_command(path, targets, settings=settings, no_cache=no_cache, trust=trust, json=json)
        return
    results: list[Mapping[str, Any]] = []
    failed: dict[str, NnkitError] = {}
    named = load_named(path, settings, targets)
    builds = planned_builds(named.recipe, named.keys, Progress(verbose=verbose), cache=not no_cache, trust=trust)
    for build in builds:
        try:
            plan = plan_of(build)
        except NnkitError as error:
            failed[build.key] = error
            results.append(not_built(path, build.key, str(error), int(error.exit_code)))
            continue
        results.append(plan.data)
        if not json:
            _print(plan, verbose=verbose)
    if json and (len(builds) > 1 or not failed):
        print_json(results[0] if len(builds) == 1 else results)
    raise_failed(failed, len(builds))


def _print(plan: Plan, *, verbose: bool) -> None:
    print_line(f"plan for {plan.target}")
    print_line("rewrites")
    idle = []
    for entry in plan.data["rewrites"]:
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
        names = f": {', '.join(idle)}" if verbose else " (--verbose names them)"
        print_line(f"  {len(idle)} {'rule has' if len(idle) == 1 else 'rules have'} nothing to do here{names}")
    print_line("placement")
    for segment in plan.data["segments"]:
        layers = segment["layers"]
        span = layers[0] if len(layers) == 1 else f"{layers[0]} .. {layers[-1]}"
        print_line(f"  {segment['placement']:<5}{len(layers)} {'layer' if len(layers) == 1 else 'layers'}: {span}")
    estimates = plan.data["estimates"]
    by_layer = estimates.get("layers", {})
    note = "" if plan.calibrated else " (no calibration images: formats are not known yet)"
    print_line("layers" + note + (f"; last, {estimates['layers_are']}" if by_layer else ""))
    rows = []
    for layer in plan.layers:
        form = layer.output_format or f"{layer.output_bits} bits"
        tags = f" [{', '.join(layer.tags)}]" if layer.tags else ""
        place = layer.placement + tags
        if by_layer:
            number = by_layer.get(layer.name)
            place += f" {'?' if number is None else f'{number:,}':>14}"
        rows.append((layer.name, layer.op, "x".join(map(str, layer.shape)), form, place))
    widths = _widths(rows)
    for name, kind, shape, form, place in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip((name, kind, shape, form), widths, strict=True))
        print_line(f"  {' '.join(cells)} {place}")
    print_line("memory")
    width = max(4, *(len(name) + 1 for name in plan.memory)) if plan.memory else 4
    for name, use in plan.memory.items():
        proof = "optimal" if use.proven_optimal else f"lower bound {byte_count(use.lower_bound_bytes)}"
        of = f" of {byte_count(use.capacity_bytes)}" if use.limited else ""
        print_line(f"  {name:<{width}}{byte_count(use.peak_bytes)}{of} ({proof})")
    weights = f"weights {byte_count(plan.weight_bytes)}, " if plan.weight_bytes else ""
    print_line(f"  {weights}planner {plan.data['plan']['planner']}")
    if "line" in estimates:
        print_line(f"  {estimates['line']}")
    for note in plan.data["notes"]:
        print_line(f"note  {note}")


def _widths(rows: Sequence[tuple[str, ...]]) -> list[int]:
    """Widths of the columns before the last: at least what a common network needs, so two plans look alike."""
    return [max((least, *(len(row[i]) for row in rows))) for i, least in enumerate((31, 17, 13, 9))]
