"""What the report says of an nnie build alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnkit.mixed_precision.search import LayerSet
from nnkit.program import Fixed, Float
from nnkit.target import Deployment
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.emit import read_build_file
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.network import Network, NnieSegment
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.precision import better_choice, precision_table, sixteen_bit_layers, table_lines
from nnkit_nnie.quantize import input_storage
from nnkit_nnie.report_cost import cost_of
from nnkit_nnie.stn_calibration import AlignedStatistics

_TABLE_SAMPLES, _TABLE_SCORED = 8, 512


def report_details(deployment: Deployment[NnieLowered], options: NnieOptions, folder: Path) -> Mapping[str, Any]:
    """JSON data: chip, segments, cost, the usual choices of precision, mapper, notes."""
    chip, network = CHIPS[options.chip], deployment.lowered.network
    build = read_build_file(folder)
    program = deployment.program
    formats = {name: input_storage(program, name) for name in program.inputs}
    built = sixteen_bit_layers(network, options.compile_mode)
    table = _precision(deployment, formats, options, built)
    better = better_choice(table, built)
    return {
        "chip": chip.title,
        "nnie": chip.generation,
        "compile_mode": options.compile_mode,
        "networks": [_network(each) for each in build["networks"]],
        "segments": [_segment(segment, network, build["networks"]) for segment in network.segments],
        "cost": cost_of(program),
        "precision": table,
        "summary": [*table_lines(table), *([] if better is None else [better])],
        "mapper": _mapper(build["networks"][-1]),
        "notes": build["notes"],
    }


def _precision(
    deployment: Deployment[NnieLowered],
    formats: Mapping[str, Fixed | Float],
    options: NnieOptions,
    built: LayerSet,
) -> list[dict[str, Any]]:
    """The usual choices on the verification images where the recipe has a task and not too many, else on a few of
    calibration."""
    from nnkit.inputs import verification_samples
    from nnkit.verify.tasks import task_scorer

    recipe, program, network = deployment.recipe, deployment.program, deployment.lowered.network
    statistics = AlignedStatistics(deployment.lowered, deployment.statistics, formats, deployment.samples, options).of
    if recipe.verify.task is not None:
        samples = verification_samples(recipe, deployment.lowered.model)
        if len(samples) <= _TABLE_SCORED:
            shapes = {name: program.tensors[name].shape for name in program.outputs}
            scorer = task_scorer(recipe, shapes, samples.images)
            return precision_table(network, statistics, formats, samples, scorer, built=built)
    return precision_table(network, statistics, formats, deployment.samples(_TABLE_SAMPLES), built=built)


def _network(entry: Mapping[str, Any]) -> dict[str, Any]:
    """One network for the mapper; there are two where a spatial transformer was split."""
    folder = f"{entry['folder']}/" if entry["folder"] else ""
    return {
        "name": entry["name"] or entry["stem"],
        "files": [f"{folder}{entry['stem']}.{suffix}" for suffix in ("prototxt", "caffemodel", "cfg")],
        "layers": len(entry["layers"]),
        "mapper": _mapper(entry),
    }


def _mapper(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    compiled: Mapping[str, Any] | None = entry["compiled"]
    return compiled if compiled is not None else {"status": entry["not_compiled"]}


def _segment(segment: NnieSegment, network: Network, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What runs where, in order. `what`: the part of a split network, or its warp."""
    names = {layer.name for layer in segment.layers}
    what = [entry["name"] for entry in entries if names & set(entry["layers"])]
    what += ["warp"] if network.split_at in names else []
    return {
        "runs_on": "nnie" if segment.placement == "npu" else "cpu",
        "layers": len(segment.layers),
        **({"what": ", ".join(what)} if network.split_at is not None else {}),
    }
