"""The report of a deployment and the files beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit import __version__
from nnkit.build_status import RELEASED, Status
from nnkit.deployed import Deployed
from nnkit.deployed.session import ENROL, SEARCH
from nnkit.deployment.pictures import store_pictures
from nnkit.memory import memory_map_svg, plan_to_json
from nnkit.memory.joint_plan import Stage
from nnkit.pipeline import Finished
from nnkit.recipe.resolved import resolved_yaml
from nnkit.report.advice import advice_for_networks
from nnkit.report.build import file_entries, file_entry, json_text, write_report_with
from nnkit.report.csv_cell import plain_cell
from nnkit.report.layers_csv import COLUMNS, layer_table
from nnkit.stages.report_stage import tool_versions
from nnkit.verify.status import status_of

if TYPE_CHECKING:
    from nnkit.deployment.build import DeploymentBuild
    from nnkit.deployment.verify import PipelineVerdict


def write_report(
    build: DeploymentBuild,
    deployed: Deployed,
    finished: Mapping[str, Finished],
    verdict: PipelineVerdict,
    folder: Path,
) -> dict[str, Any]:
    """Write report.json, plan.json, layers.csv, recipe.yaml, memory drawings and pictures; the report's data."""
    plan = deployed.joint.plan
    pictures = store_pictures(build, deployed, verdict, folder)
    with build.progress.stage("report"):
        first = next(iter(build.networks.values()))
        machine = first.target.machine(first.options)
        report: dict[str, Any] = {
            "nnkit": __version__,
            "recipe": build.recipe.name,
            "recipe_file": Path(build.recipe.file).name,
            **({"settings": list(build.recipe.settings)} if build.recipe.settings else {}),
            "target": build.key,
            "status": _status(finished, verdict),
            "networks": [_network(name, each, folder) for name, each in finished.items()],
            "stages": with_milliseconds(stage_rows(deployed, verdict.stages, verdict.counts), machine.clock_hz),
            "clock_hz": machine.clock_hz,
            "survivors": survivor_rows(deployed),
            "memory": memory_rows(deployed),
            "inputs": _tensors(finished, "inputs"),
            "outputs": _tensors(finished, "outputs"),
            "faces": _faces(verdict),
            "pictures": pictures,
            "tools": tool_versions(first),
            "verify": {"program_vs_artifact": [each.as_json() for each in verdict.runs]},
            "artifact": file_entries(folder / "artifact"),
        }
        report["advice"] = advice_for_networks(report, {name: each.report for name, each in finished.items()})
        texts = {
            "plan.json": json_text(plan_to_json(plan)),
            "layers.csv": _layers_csv(deployed),
            "recipe.yaml": resolved_yaml(build.recipe),
        }
        write_report_with(report, texts, folder)
        for region in plan.regions:
            (folder / f"memory_{region}.svg").write_text(memory_map_svg(plan, region), encoding="utf-8")
    return report


def memory_rows(deployed: Deployed) -> dict[str, dict[str, Any]]:
    """As in the report of a network; `alone_bytes`: what each network would take with a memory of its own."""
    rows = {}
    for name, use in deployed.joint.plan.regions.items():
        own = {part.name: deployed.plan_of(part.name) for part in deployed.parts}
        alone = {
            network: plan.l3_weight_bytes - deployed.joint.l3_offset_bytes(network)
            if name == "l3"
            else plan.regions[name].peak_bytes
            for network, plan in own.items()
        }
        rows[name] = {
            "capacity_bytes": use.capacity_bytes,
            "peak_bytes": use.peak_bytes,
            "lower_bound_bytes": use.lower_bound_bytes,
            "proven_optimal": use.proven_optimal,
            "alone_bytes": alone,
        }
    return rows


def survivor_rows(deployed: Deployed) -> list[dict[str, Any]]:
    """What no network owns: name, kind, bytes, offset, and the first and last step in which it lives."""
    plan = deployed.joint.plan
    return [
        {
            "name": buffer.name,
            "kind": buffer.kind,
            "bytes": buffer.size_bytes,
            "offset": buffer.offset_bytes,
            "first": plan.steps[buffer.first_step].op,
            "last": plan.steps[buffer.last_step].op,
        }
        for buffer in plan.buffers.values()
        if "/" not in buffer.name
    ]


def stage_rows(
    deployed: Deployed, measured: Mapping[str, Mapping[str, tuple[int, int]]], counts: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Stages in order: what each reads and writes, and what one run of it takes where that is counted."""
    if deployed.stages is None:
        return [{"name": part.name, "kind": "network", "reads": [], "writes": []} for part in deployed.parts]
    rows = []
    for label, item in zip(deployed.stages.NAMES, deployed.stages.order(), strict=True):
        is_stage = isinstance(item, Stage)
        row: dict[str, Any] = {
            "name": item.name if isinstance(item, Stage) else item,
            "kind": "stage" if is_stage else "network",
            "reads": list(item.reads) if isinstance(item, Stage) else [],
            "writes": list(item.writes) if isinstance(item, Stage) else [],
        }
        for runner, stages in measured.items():
            runs, total = stages.get(label, (0, 0))
            if runs and counts[runner]:
                row.setdefault("measured", {})[runner] = {"runs": runs, counts[runner]: total // runs}
        rows.append(row)
    return rows


def with_milliseconds(stages: Sequence[Mapping[str, Any]], clock_hz: int | None) -> list[dict[str, Any]]:
    """The stages with `milliseconds` beside what was counted of a run, one a cycle: an estimate."""
    rows = []
    for stage in stages:
        measured = {
            runner: counts
            if clock_hz is None
            else counts | {"milliseconds": round(1e3 * next(counts[u] for u in counts if u != "runs") / clock_hz, 6)}
            for runner, counts in stage.get("measured", {}).items()
        }
        rows.append({**stage, "measured": measured} if measured else dict(stage))
    return rows


def _status(finished: Mapping[str, Finished], verdict: PipelineVerdict) -> Status:
    """The worst of the networks' and of the pipeline's."""
    own = status_of((), verdict.runs, ())
    statuses = [own, *(each.verdict.status for each in finished.values())]
    order: tuple[Status, ...] = ("mismatch", "gate_failed", "unproven", "ok")
    return min(statuses, key=order.index)


def _network(name: str, finished: Finished, folder: Path) -> dict[str, Any]:
    place = f"networks/{name}"
    report: Any = finished.report
    floats = report["verify"]["float_vs_program"]
    return {
        "name": name,
        "status": finished.verdict.status,
        "released": finished.verdict.status in RELEASED,
        "folder": place,
        "macs": report["macs"],
        "weight_bytes": report["planner"]["weight_bytes"],
        "cosine": floats["cosine"],
        "sqnr_db": floats["sqnr_db"],
        "gates": report["verify"]["gates"],
        "program_vs_artifact": report["verify"]["program_vs_artifact"],
        "files": {
            each: file_entry((folder / place / each).read_bytes()) for each in ("report.json", *report["files"])
        },
    }


def _tensors(finished: Mapping[str, Finished], which: str) -> list[dict[str, Any]]:
    tensors = []
    for name, each in finished.items():
        report: Any = each.report
        tensors += [{**tensor, "name": f"{name}/{tensor['name']}"} for tensor in report[which]]
    return tensors


def _faces(verdict: PipelineVerdict) -> list[dict[str, Any]]:
    """What each frame of the session gave, in order."""
    rows: list[dict[str, Any]] = []
    for answer, file in zip(verdict.answers, verdict.files, strict=True):
        if answer.command.code == ENROL:
            status = int.from_bytes(answer.result[:4], "little", signed=True)
            rows.append({"frame": file, "enrolled": answer.command.name, "status": status})
        if answer.command.code == SEARCH:
            faces = [
                {
                    "box": [face.box.x, face.box.y, face.box.width, face.box.height],
                    "score": face.score,
                    "status": face.status,
                    "name": face.name or None,
                    "squared_distance": face.squared_distance if face.index != 0xFFFFFFFF else None,
                }
                for face in answer.faces
            ]
            rows.append({"frame": file, "faces": faces})
    return rows


def _layers_csv(deployed: Deployed) -> str:
    """The networks' layers one after another; steps and addresses are those of the joint plan's networks."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ("network", *COLUMNS), lineterminator="\n")
    writer.writeheader()
    for part in deployed.parts:
        for row in layer_table(part.program, deployed.plan_of(part.name)):
            writer.writerow({key: plain_cell(cell) for key, cell in {"network": part.name, **row}.items()})
    return text.getvalue()
