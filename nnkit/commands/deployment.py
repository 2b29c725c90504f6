"""`nnkit run`, `plan` and `check` of a deployment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit.api.deploying import load_deployment_recipe
from nnkit.build_status import RELEASED
from nnkit.commands.common import byte_count, print_json
from nnkit.errors import GateFailedError, UnprovenError, UsageError
from nnkit.report.html.words import milliseconds
from nnkit.report.progress import Progress
from nnkit.terminal import print_line
from nnkit.visible import Visible, visible

if TYPE_CHECKING:
    from nnkit.commands.run import RunOptions
    from nnkit.deployment import DeploymentBuild
    from nnkit.recipe.settings import Setting


def run_deployment_command(path: Path, options: RunOptions) -> None:
    """Build every network and all together. Raises GateFailedError, UnprovenError as `nnkit run`."""
    from nnkit.api.building import write_run_json
    from nnkit.commands.run import PROVE
    from nnkit.deployment import run_deployment

    began = time.perf_counter()
    build = _build(path, options.settings, options)
    build.progress.line(f"{build.recipe.name} for {build.key}: {', '.join(build.networks)}")
    outcome = run_deployment(build, options.out)
    seconds = time.perf_counter() - began
    write_run_json(outcome.folder, next(iter(build.networks.values())), seconds)
    if options.json:
        print_json(outcome.report)
    else:
        _summary(outcome.report, outcome.folder, seconds)
    if outcome.status not in RELEASED:
        raise GateFailedError(
            _why(outcome.report, outcome.folder),
            remedy="see report.json there, and the reports of its networks; the last good build is unchanged",
        )
    if outcome.status == "unproven":
        raise UnprovenError(f"{build.recipe.name}: built, but something has not run ({outcome.folder})", remedy=PROVE)


def plan_deployment_command(
    path: Path, targets: Sequence[str], *, settings: Sequence[Setting], no_cache: bool, trust: bool, json: bool
) -> None:
    """The memory of all networks together, without writing anything."""
    from nnkit.deployment import deployment_build, plan_deployment
    from nnkit.deployment.report import memory_rows, stage_rows, survivor_rows
    from nnkit.memory import plan_to_json

    recipe = load_deployment_recipe(path, settings)
    _check_targets(targets, recipe.key)
    build = deployment_build(recipe, Progress(), cache=not no_cache, emulate=False, trust=trust)
    planned = plan_deployment(build)
    deployed = planned.deployed
    data: dict[str, Any] = {
        "recipe": recipe.name,
        "target": build.key,
        "calibrated": all(each.calibrated for each in planned.previews.values()),
        "stages": stage_rows(deployed, {}, {}),
        "survivors": survivor_rows(deployed),
        "memory": memory_rows(deployed),
        "plan": plan_to_json(deployed.joint.plan),
        "notes": list(dict.fromkeys(note for each in planned.previews.values() for note in each.program.notes)),
    }
    if json:
        print_json(data)
        return
    print_line(f"plan for {build.key}: {', '.join(build.networks)}")
    if not data["calibrated"]:
        print_line("  (a network has no calibration images: its formats are not known yet)")
    _print_stages(data["stages"])
    _print_memory(data["memory"], data["survivors"])
    for note in data["notes"]:
        print_line(f"  note     {note}")


def check_deployment_command(path: Path, settings: Sequence[Setting]) -> tuple[dict[str, Any], list[str]]:
    """The deployment's recipe and those of its networks: all that they name is opened.

    Returns it as JSON data, and in lines.
    """
    from nnkit.api.deploying import check_deployment

    checked = check_deployment(path, settings)
    data = {
        "recipe": checked.recipe.name,
        "targets": [checked.recipe.key],
        "networks": {name: each.recipe.name for name, each in checked.networks.items()},
        "frames": checked.frames,
        "enrolled": checked.enrolled,
        "notes": list(checked.notes),
    }
    lines = [
        f"network  {name}: {each.recipe.file}, {Path(each.recipe.model.path.text).name}"
        for name, each in checked.networks.items()
    ]
    lines.append(f"target   {checked.recipe.key}")
    if checked.recipe.deployment.pipeline is not None:
        lines.append(f"pipeline {checked.frames} frames, {checked.enrolled} people are enrolled")
    return data, [*lines, *(f"note     {note}" for note in checked.notes)]


def _build(path: Path, settings: Sequence[Setting], options: RunOptions) -> DeploymentBuild:
    from nnkit.deployment import deployment_build

    recipe = load_deployment_recipe(path, settings)
    _check_targets(options.targets, recipe.key)
    return deployment_build(
        recipe,
        Progress(verbose=options.verbose),
        cache=options.cache,
        emulate=options.emulate,
        executor=options.executor,
        trust=options.trust,
    )


def _check_targets(wanted: Sequence[str], key: str) -> None:
    for name in wanted:
        if name != key:
            raise UsageError(f"the recipe has no target {name!r}", where="--target", remedy=f"its target is: {key}")


def _summary(report: Mapping[str, Any], folder: Path, seconds: float) -> None:
    print_line(f"{report['recipe']} for {report['target']}: {report['status']}")
    for network in report["networks"]:
        runs = ", ".join(
            f"{each['how']} {each['mismatches']} of {each['values']:,} differ"
            if each["contract"] != "not_run"
            else f"{each['how']} not run"
            for each in network["program_vs_artifact"]
        )
        print_line(f"  network  {network['name']}: {network['status']}, cosine {network['cosine']:.6f}; {runs}")
    _print_stages(report["stages"])
    _print_memory(report["memory"], report["survivors"])
    for frame in report["faces"]:
        if "enrolled" in frame:
            outcome = "enrolled" if frame["status"] == 0 else f"NOT enrolled (status {frame['status']})"
            print_line(f"  {frame['frame']}: {frame['enrolled']} {outcome}")
        else:
            names = [face["name"] or "a stranger" for face in frame["faces"]]
            print_line(f"  {frame['frame']}: {', '.join(names) or 'nobody'}")
    for entry in report["verify"]["program_vs_artifact"]:
        if entry["contract"] == "not_run":
            print_line(f"  {entry['how']:<8} not run: {entry['reason']}")
        else:
            print_line(
                f"  {entry['how']:<8} {entry['mismatches']} of {entry['values']:,} bytes of the whole pipeline differ"
            )
    print_line(f"  build    {folder} ({seconds:.1f} s)")


def _print_stages(stages: Sequence[Mapping[str, Any]]) -> None:
    for stage in stages:
        taken = [
            f"{name} {values[unit]:,} {unit} a run{_in_milliseconds(values)}"
            for name, values in stage.get("measured", {}).items()
            for unit in ("instructions", "cycles")
            if unit in values
        ]
        touches = "" if stage["kind"] == "network" else f"{', '.join(stage['reads'])} -> {', '.join(stage['writes'])}"
        print_line(f"  {stage['kind']:<8} {stage['name']:<12} {'; '.join([*taken, *([touches] if touches else [])])}")


def _in_milliseconds(values: Mapping[str, Any]) -> str:
    time = values.get("milliseconds")
    return "" if time is None else f" (about {milliseconds(time, ',')} ms)"


def _print_memory(memory: Mapping[str, Any], survivors: Sequence[Mapping[str, Any]]) -> None:
    for name, use in memory.items():
        proof = "optimal" if use["proven_optimal"] else f"lower bound {byte_count(use['lower_bound_bytes'])}"
        alone = ", ".join(f"{network} {byte_count(size)}" for network, size in use["alone_bytes"].items())
        print_line(
            f"  {name:<8} {byte_count(use['peak_bytes'])} of {byte_count(use['capacity_bytes'])} ({proof}); "
            f"alone: {alone}"
        )
    kept = ", ".join(f"{each['name']} {byte_count(each['bytes'])}" for each in survivors)
    print_line(f"  between  {kept}")


def _why(report: Mapping[str, Any], folder: Path) -> str:
    lines = [f"{report['target']}: {report['status'].replace('_', ' ')} ({folder})"]
    lines += [f"network {each['name']}: {each['status']}" for each in report["networks"] if not each["released"]]
    lines += [
        f"{entry['how']}: {entry['mismatches']} of {entry['values']} bytes differ; first {entry['first_difference']}"
        for entry in report["verify"]["program_vs_artifact"]
        if entry["mismatches"]
    ]
    return Visible("\n  ".join(map(visible, lines)))
