"""The stage that tells of a build: report.json and the files beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nnkit.memory.plan import MemoryPlan
from nnkit.mixed_precision.tried import tried_in_search
from nnkit.program import Program
from nnkit.recipe.sections import AUTO
from nnkit.report.untried import Untried
from nnkit.stages.build_stages import quantization_of
from nnkit.stages.task import boxes_note
from nnkit.stages.types import Artifact, Build, Imported, Restructured, Settled, Verdict
from nnkit.target import Shown


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the stages before the report came to."""

    imported: Imported
    restructured: Restructured
    settled: Settled
    artifact: Artifact
    verdict: Verdict


def report(build: Build, outcome: Outcome) -> dict[str, Any]:
    """Write report.json and the files beside it; returns the report's data."""
    from nnkit.memory import plan_to_json
    from nnkit.recipe import resolved_yaml
    from nnkit.report.build import json_text, write_report_with
    from nnkit.report.calibration_table import calibration_table
    from nnkit.report.layers_csv import layer_table_csv
    from nnkit.report.page_data import write_page_data
    from nnkit.serialize import encode

    folder, deployment = outcome.artifact.build_folder, outcome.artifact.deployment
    program, plan, lowered = deployment.program, deployment.plan, outcome.settled.lowered
    with build.progress.stage("report") as step:
        stages = {
            "float.onnx": outcome.restructured.reference.onnx_bytes,
            "restructured.onnx": outcome.restructured.model.onnx_bytes,
            "program.nnkit": encode(program, build.target.program_classes()),
        }
        saying = replace(deployment, say=step.say)
        details = build.target.details(saying, build.options, outcome.artifact.folder)
        data = _measured(build, outcome, stages, details)
        shown = build.target.shown(figures_of_target(data))
        _judge(build, outcome, data, shown)
        texts = {
            "plan.json": json_text(plan_to_json(plan)),
            "layers.csv": layer_table_csv(program, plan, data["layers"]),
            "recipe.yaml": resolved_yaml(build.recipe.only(build.key, build.key)),
        }
        write_report_with(data, texts, folder)
        write_page_data(folder / "page.json", _page(outcome, shown))
        _draw_memories(folder, plan, program, shown)
        for name, content in stages.items():
            (folder / name).write_bytes(content)
        wanted = quantization_of(build, lowered, deployment.statistics)
        used = build.target.ranges_used(lowered, wanted, program, build.options)
        (folder / "calibration.yaml").write_text(calibration_table(used), encoding="utf-8")
        return data


def _measured(
    build: Build, outcome: Outcome, stages: Mapping[str, bytes], details: Mapping[str, Any]
) -> dict[str, Any]:
    """What the stages counted and compared, as the report has it. stages: files of the network on its way."""
    from nnkit.report.build import Reported, build_report

    deployment, verdict = outcome.artifact.deployment, outcome.verdict
    raw = boxes_note(build.recipe, outcome.restructured.model)
    return build_report(
        Reported(
            recipe=build.recipe.name,
            recipe_file=Path(build.recipe.file).name,
            settings=build.recipe.settings,
            target=build.key,
            machine=build.target.machine(build.options).as_json(),
            status=verdict.status,
            program=deployment.program,
            plan=deployment.plan,
            rewrites=outcome.restructured.log,
            segments=outcome.settled.lowered.segments,
            floats=verdict.floats,
            artifacts=verdict.artifacts,
            gates=verdict.gates,
            required=verdict.required,
            task=verdict.task,
            seen_by_calibration=verdict.seen_by_calibration,
            stages=stages,
            artifact_folder=outcome.artifact.folder,
            statistics=deployment.statistics,
            notes=(*outcome.imported.notes, *([] if raw is None else [raw])),
            details=details,
            tools=tool_versions(build),
            mixed_precision=outcome.settled.search,
            pictures=verdict.pictures,
            drawn=verdict.drawn,
        )
    )


def _judge(build: Build, outcome: Outcome, data: dict[str, Any], shown: Shown) -> None:
    """Add what follows from the figures: times, doubts and advice."""
    from nnkit.report.advice import advice_for
    from nnkit.report.clocked import times
    from nnkit.report.doubts import doubts
    from nnkit.stages.given_files import needs_ranges
    from nnkit.verify.constant_outputs import doubts_of_outputs

    clock_hz = build.target.machine(build.options).clock_hz
    data |= times(data, shown.speed, shown.layer_times, clock_hz)
    rests = needs_ranges(build, outcome.settled.lowered)
    score, images = data["verify"].get("task"), data["calibration"]["images"] if rests else 0
    floats, ranges = outcome.verdict.floats, outcome.artifact.deployment.statistics.ranges
    data["doubts"] = [
        *doubts_of_outputs(floats.constant, floats.samples),
        *doubts(build.recipe, outcome.imported.model, score, images, outcome.verdict.drawn, ranges),
    ]
    search = outcome.settled.search
    tried = shown.tried if search is None else tried_in_search(search)
    data["advice"] = [each.as_json() for each in advice_for(data, replace(untried(build), tried=tried))]


def _page(outcome: Outcome, shown: Shown) -> dict[str, Any]:
    """What the page draws beside the report."""
    from nnkit.report.page_data import page_data

    restructured, verdict, program = outcome.restructured, outcome.verdict, outcome.artifact.deployment.program
    return page_data(restructured.reference, restructured.model, program, verdict.floats, verdict.task) | {
        "tables": [asdict(table) for table in shown.tables],
        "segments": list(shown.segments),
        "memories": [asdict(memory) for memory in shown.memories],
        "timelines": [asdict(timeline) for timeline in shown.timelines],
        **({"proofs": dict(shown.proofs)} if shown.proofs else {}),
    }


def _draw_memories(folder: Path, plan: MemoryPlan, program: Program, shown: Shown) -> None:
    from nnkit.memory import local_memory_svg, memory_map_svg

    for region in plan.regions:
        (folder / f"memory_{region}.svg").write_text(memory_map_svg(plan, region), encoding="utf-8")
    for memory in shown.memories:
        drawing = local_memory_svg(memory, [op.name for op in program.ops])
        (folder / f"memory_{memory.name}.svg").write_text(drawing, encoding="utf-8")


def figures_of_target(report: Mapping[str, Any]) -> dict[str, Any]:
    """What a target's `shown` is made from: the report's `details`, and what was measured by runner."""
    runs = report["verify"]["program_vs_artifact"]
    measured = {run["how"]: run["measured"] for run in runs if run.get("measured")}
    return {**report.get("details", {}), "measured": measured}


def untried(build: Build) -> Untried:
    """What the recipe could still ask of its target for more accuracy."""
    asked, tags = build.recipe.calibration_for(build.key).corrections, build.recipe.tags_for(build.key)
    searched = tags.hp == AUTO
    own = () if searched else build.target.own_corrections(build.options)
    tried = own if asked is None else asked
    return Untried(
        corrections=tuple(name for name in build.target.corrections_with(build.options) if name not in tried),
        tried_corrections=tuple(tried),
        chosen=asked is not None,
        sixteen_bits=build.target.gains_from_sixteen_bits(build.options) and not searched,
        cpu=tags.cpu,
    )


def tool_versions(build: Build) -> dict[str, str]:
    """Versions of the packages and external tools that the bytes or figures of a build come from."""
    from nnkit.cache import installed_version

    names = ("numpy", "onnx", "onnxruntime", "onnxsim", "pillow")
    versions = {name: installed_version(name) for name in names}
    return versions | {tool.name: tool.version for tool in build.target.tools() if tool.found and tool.in_report}
