"""`report.json`: what a build is, what it takes, what was proven and measured of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnkit import __version__
from nnkit.build_status import Status
from nnkit.calibrate.room import widened_values
from nnkit.calibrate.stats import CalibrationStats
from nnkit.lowered import Segment
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Fixed, Float, OpBase, Pixels, Program, macs
from nnkit.quantize.accumulator_sums import accumulator_sums
from nnkit.rewrite import RewriteLog
from nnkit.verify.artifact import ArtifactVerdict
from nnkit.verify.float_vs_program import FloatVerdict
from nnkit.verify.gates import GateResult
from nnkit.verify.status import RequiredRunner
from nnkit.verify.tasks import TaskScore


def file_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """sha256 and bytes of every file below `folder`, by relative path, sorted."""
    entries = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        entries[path.relative_to(folder).as_posix()] = file_entry(path.read_bytes())
    return entries


def file_entry(content: bytes) -> dict[str, Any]:
    """sha256 and bytes of a file's content."""
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


@dataclass(frozen=True, eq=False)
class Reported:
    """What a report is made of.

    target: key of the build in the recipe's `targets`. machine: chip or processor, and what runs the layers.
    segments: in order of execution. notes: the importer's.
    stages: the networks and the program beside the report, by file name: commands on a build hold them to it.
    details: what the report says of this target alone. seen_by_calibration: how many of the verification inputs.
    tools: versions by name. mixed_precision: of `hp: auto`.
    pictures: of the worst inputs, by index: the path below the build folder.
    """

    recipe: str
    recipe_file: str
    settings: Sequence[str]
    target: str
    status: Status
    program: Program
    plan: MemoryPlan
    rewrites: RewriteLog
    segments: Sequence[Segment]
    floats: FloatVerdict
    artifacts: Sequence[ArtifactVerdict]
    gates: Sequence[GateResult]
    required: Sequence[RequiredRunner]
    stages: Mapping[str, bytes]
    artifact_folder: Path
    statistics: CalibrationStats
    notes: Sequence[str]
    tools: Mapping[str, str]
    details: Mapping[str, Any]
    seen_by_calibration: int
    machine: Mapping[str, str] = field(default_factory=dict)
    task: TaskScore | None = None
    mixed_precision: Mapping[str, Any] | None = None
    pictures: Mapping[int, str] = field(default_factory=dict)
    drawn: Mapping[str, str] = field(default_factory=dict)


def build_report(build: Reported) -> dict[str, Any]:
    """The report as JSON data; `report.schema.json` describes the fields, and `docs/report.md` for readers."""
    program, plan, floats = build.program, build.plan, build.floats
    return {
        "nnkit": __version__,
        "recipe": build.recipe,
        "recipe_file": build.recipe_file,
        **({"settings": list(build.settings)} if build.settings else {}),
        "target": build.target,
        **({"machine": build.machine} if build.machine else {}),
        "status": build.status,
        "notes": list(build.notes),
        "quantization_notes": list(program.notes),
        "tools": dict(build.tools),
        "calibration": _calibration(build.statistics),
        "memory": {
            name: {
                "capacity_bytes": use.capacity_bytes,
                "peak_bytes": use.peak_bytes,
                "lower_bound_bytes": use.lower_bound_bytes,
                "proven_optimal": use.proven_optimal,
                **({} if use.limited else {"limited": False}),
            }
            for name, use in plan.regions.items()
        },
        "planner": {
            "name": plan.planner,
            "weight_bytes": plan.l3_weight_bytes,
            "notes": list(plan.notes),
        },
        "inputs": [_tensor(program, name) for name in program.inputs],
        "outputs": [_tensor(program, name) for name in program.outputs],
        "macs": sum(macs(op, program) for op in program.ops),
        "segments": [{"placement": s.placement, "layers": list(s.layers)} for s in build.segments],
        "layers": _layers(program, plan, floats, build.artifacts),
        **({} if build.mixed_precision is None else {"mixed_precision": dict(build.mixed_precision)}),
        **({"details": dict(build.details)} if build.details else {}),
        "rewrites": build.rewrites.report(),
        "verify": {
            "float_vs_program": {
                **floats.outputs.as_json(),
                "inputs": floats.samples,
                "seen_by_calibration": build.seen_by_calibration,
                **({"drawn": dict(build.drawn)} if build.drawn else {}),
                "by_output": {name: d.as_json() for name, d in floats.by_output.items()},
                **({"constant_outputs": dict(floats.constant)} if floats.constant else {}),
            },
            "program_vs_artifact": [verdict.as_json() for verdict in build.artifacts],
            **({} if build.task is None else {"task": build.task.as_json()}),
            "worst": [error.as_json(build.pictures.get(error.index)) for error in floats.worst],
            "gates": [gate.as_json() for gate in build.gates],
            **({"required": [each.as_json() for each in build.required]} if build.required else {}),
        },
        "stages": {name: file_entry(content) for name, content in build.stages.items()},
        "artifact": file_entries(build.artifact_folder),
    }


def _calibration(statistics: CalibrationStats) -> dict[str, Any]:
    entry: dict[str, Any] = {"method": statistics.method}
    if statistics.percentile is not None:
        entry["percentile"] = statistics.percentile
    if statistics.trials:
        entry["tried"] = [{"method": each.method, "sqnr_db": each.sqnr_db} for each in statistics.trials]
    if widened := widened_values(statistics):
        entry["room"] = {each.name: {"numbers": each.numbers, "factor": round(each.factor, 4)} for each in widened}
    if statistics.tuned:
        entry["tuned"] = sorted(statistics.tuned)
    skipped = [{"name": image.name, "reason": image.reason} for image in statistics.skipped]
    return {**entry, "images": statistics.images, "skipped": skipped}


def _tensor(program: Program, name: str) -> dict[str, Any]:
    tensor = program.tensors[name]
    form = tensor.format
    entry: dict[str, Any] = {"name": name, "shape": list(tensor.shape), "format": str(form), "bits": form.bits}
    if isinstance(form, Fixed):
        entry["frac"] = form.frac
    elif isinstance(form, Pixels):
        entry |= {"scale": list(form.scale), "mean": list(form.mean)}
    elif not isinstance(form, Float):
        entry |= {"scale": list(form.scale), "zero_point": list(form.zero_point)}
    if isinstance(form, Float):
        return {**entry, "signed": True}
    return {**entry, "signed": form.signed, "low": tensor.low, "high": tensor.high}


def _layers(
    program: Program, plan: MemoryPlan, floats: FloatVerdict, artifacts: Sequence[ArtifactVerdict]
) -> list[dict[str, Any]]:
    instructions: Mapping[str, int] = {}
    for verdict in artifacts:
        instructions = verdict.instructions_by_layer or instructions
    rows = []
    for op in program.ops:
        steps = [step.index for step in plan.steps if step.op == op.name]
        formats = {"output": str(program.tensors[op.output].format)}
        formats |= {f"input{i}": str(program.tensors[n].format) for i, n in enumerate(op.inputs)}
        formats |= op.weight_formats()
        row: dict[str, Any] = {
            "name": op.name,
            "op": op.kind,
            "placement": op.placement,
            "tags": list(op.tags),
            "origins": list(op.origins) or [op.name],
            "inputs": list(op.inputs),
            "output": op.output,
            "shape": list(program.tensors[op.output].shape),
            "macs": macs(op, program),
            "weight_bytes": op.weight_bytes(),
            "formats": formats,
            "accumulator": op.accumulator,
            "proof": op.proof,
            "sqnr_db": floats.layers[op.name].as_json()["sqnr_db"] if op.name in floats.layers else None,
            "isolated_sqnr_db": floats.isolated[op.name].as_json()["sqnr_db"] if op.name in floats.isolated else None,
            "peak_bytes": _peak_bytes(plan, op, steps),
            "instructions": instructions.get(op.name),
        }
        if op.weight_formats():
            row["bits_lost"] = op.bits_lost
        if op.proof_note:
            row["proof_note"] = op.proof_note
        sums = accumulator_sums(op, program)
        if sums is not None:
            row["accumulator_sums"] = sums
        seen = floats.watch.ops.get(op.name)
        if seen is not None:
            row["observed"] = {
                "accumulator_max": seen.accumulator_max,
                "wraps": seen.wraps,
                "saturated": seen.saturated,
                "values": seen.values,
            }
        if op.name in floats.clip_rate:
            row["clip_rate"] = floats.clip_rate[op.name]
        if op.name in floats.unseen:
            row["unseen"] = floats.unseen[op.name].as_json()
        rows.append(row)
    return rows


def _peak_bytes(plan: MemoryPlan, op: OpBase, steps: Sequence[int]) -> int | None:
    """The most that the layer's steps take where its output lies; None where nnkit does not place it."""
    place = plan.places.get(op.output)
    if place is None:
        return None
    region = plan.buffers[place.buffer].region
    return max((plan.step_peak_bytes(region, step) for step in steps), default=0)


def write_json(path: Path, data: Any) -> None:
    """Deterministic, readable JSON: two-space indent, keys in the order given, final newline."""
    path.write_text(json_text(data), encoding="utf-8")


def json_text(data: Any) -> str:
    """As `write_json` writes it."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_report_with(report: dict[str, Any], texts: Mapping[str, str], folder: Path) -> None:
    """Write report.json, and beside it `texts` by file name, whose SHA-256 the report gets: packages have all."""
    contents = {name: text.encode() for name, text in texts.items()}
    report["files"] = {name: file_entry(content) for name, content in contents.items()}
    write_json(folder / "report.json", report)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
