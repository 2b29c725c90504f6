"""What a package states of its target, held to that target: times, machine and runners."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from nnkit import __version__
from nnkit.deployment.report import with_milliseconds
from nnkit.errors import ToolError, UsageError
from nnkit.package.contradiction import hold_equal
from nnkit.package.evidence import RECIPE, REPORT, Evidence
from nnkit.report.clocked import TIMES, times
from nnkit.stages.report_stage import figures_of_target
from nnkit.target.loading import load_target, plugin_name
from nnkit.target.protocol import Machine


def check_times(evidence: Evidence) -> str:
    """Why they were not computed again; empty where they were. Where they were, machine and runners are the target's.

    Raises ContradictionError for the first that differs.
    """
    if evidence.networks:
        return _check_stages(evidence) or next(filter(None, map(check_times, evidence.networks.values())), "")
    report, key = evidence.report, evidence.report["target"]
    if report["nnkit"] != __version__:
        return f"made by nnkit {report['nnkit']}, this is {__version__}"
    try:
        target = load_target(plugin_name(key))
        options = target.options.model_validate(evidence.recipe["targets"][key] or {})
    except (UsageError, ToolError) as error:
        return error.reason
    except ValidationError:
        return f"the options of {key} cannot be read from the package alone"
    machine = target.machine(options)
    _check_machine(evidence, machine, [runner.name for runner in target.runners(options)])
    shown = target.shown(figures_of_target(report))
    again = times(report, shown.speed, shown.layer_times, machine.clock_hz)
    stated: dict[str, Any] = {"speed": report["speed"], "layers": _of_layers(report["layers"])}
    wanted = {"speed": again["speed"], "layers": _of_layers(again["layers"])}
    hold_equal(evidence.file(REPORT), stated, "its other figures", json.loads(json.dumps(wanted)))
    return ""


def _check_machine(evidence: Evidence, machine: Machine, runners: list[str]) -> None:
    """Whether the report is of the machine that the recipe asks for, and lists each runner that the target has for
    it: one that the recipe requires could else be left out."""
    report, file = evidence.report, evidence.file(REPORT)
    of_recipe = f"the target, by {evidence.file(RECIPE)}"
    if "machine" in report:
        hold_equal(file, report["machine"], of_recipe, machine.as_json(), at="machine")
    if not evidence.folder:
        listed = [entry["how"] for entry in report["verify"]["program_vs_artifact"]]
        hold_equal(file, listed, of_recipe, runners, at="runners")


def _check_stages(evidence: Evidence) -> str:
    """Whether milliseconds of a deployment's stages are what was counted, at the clock."""
    report = evidence.report
    counted = [_without_times(stage) for stage in report["stages"]]
    again = json.loads(json.dumps(with_milliseconds(counted, report["clock_hz"])))
    hold_equal(evidence.file(REPORT), report["stages"], "its other figures", again, at="stages")
    return ""


def _without_times(stage: Any) -> dict[str, Any]:
    runs = {
        runner: {unit: value for unit, value in counts.items() if unit not in TIMES[:1]}
        for runner, counts in stage.get("measured", {}).items()
    }
    return {**stage, **({"measured": runs} if runs else {})}


def _of_layers(layers: Any) -> dict[str, Any]:
    return {layer["name"]: {key: layer[key] for key in TIMES if key in layer} for layer in layers}
