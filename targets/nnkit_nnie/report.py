"""What the report says of an nnie build alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nnkit.mixed_precision.search import LayerSet
from nnkit.program import Fixed, Float
from nnkit.target import Deployment
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.corrections.task import task_of_corrections
from nnkit_nnie.emit import read_build_file
from nnkit_nnie.estimates import alive_bytes, estimate_line, estimates_of, layer_milliseconds
from nnkit_nnie.gfpq.quantize import Precision, input_storage
from nnkit_nnie.layers import Layer
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.network import Network, NnieSegment
from nnkit_nnie.options import MIXED, NnieOptions
from nnkit_nnie.precision import sixteen_bit_layers
from nnkit_nnie.precision_table import (
    AS_BUILT,
    NOT_CORRECTED,
    better_choice,
    precision_table,
    table_lines,
    usual_choices,
)
from nnkit_nnie.report_cost import cost_of
from nnkit_nnie.stn.calibration import AlignedStatistics
from nnkit_nnie.wk.report import compared_numbers, numbers_in_words

_TABLE_SAMPLES, _TABLE_SCORED = 8, 512


def report_details(deployment: Deployment[NnieLowered], options: NnieOptions, folder: Path) -> Mapping[str, Any]:
    """JSON data: chip, segments, cost, the usual choices of precision, mapper, notes."""
    chip, network = CHIPS[options.chip], deployment.lowered.network
    build = read_build_file(folder)
    program = deployment.program
    formats = {name: input_storage(program, name) for name in program.inputs}
    built = sixteen_bit_layers(network, options.compile_mode)
    table, which = _precision(deployment, formats, options, built) if options.precision_table else ([], "")
    compressed = options.compress_mode == "normal"
    own_bits = Precision.of(network, options.compile_mode).bits
    estimated = estimates_of(network, own_bits, chip, compressed=compressed)
    for row in table:
        bits = Precision(MIXED, frozenset(row["layers"])).bits
        row["built"] = frozenset(row["layers"]) == built
        row["estimate"] = estimates_of(network, bits, chip, compressed=compressed)
    better = better_choice(table, built)
    numbers = [
        (entry["compiled"]["wk"], compared_numbers(folder, program, entry))
        for entry in build["networks"]
        if entry["compiled"] is not None
    ]
    return {
        "chip": chip.title,
        "nnie": chip.generation,
        "compile_mode": options.compile_mode,
        "networks": [_network(each) for each in build["networks"]],
        "segments": [_segment(segment, network, build["networks"], options) for segment in network.segments],
        "cost": cost_of(program),
        "estimate": estimated,
        "layer_milliseconds": layer_milliseconds(network, own_bits, chip, compressed=compressed),
        "precision": table,
        "precision_images": which,
        "compiled_numbers": dict(numbers),
        "summary": [
            *(f"note     {note}" for note in build["input_notes"]),
            *(line for wk, comparison in numbers for line in numbers_in_words(wk, comparison)),
            estimate_line(estimated),
            *([f"choices {which}:"] if table else []),
            *table_lines(table),
            *([] if better is None else [better]),
            *task_of_corrections(table, built),
        ],
        "mapper": _mapper(build["networks"][-1]),
        "notes": build["notes"],
    }


def _precision(
    deployment: Deployment[NnieLowered],
    formats: Mapping[str, Fixed | Float],
    options: NnieOptions,
    built: LayerSet,
) -> tuple[list[dict[str, Any]], str]:
    """The usual choices on the images that the build is verified on, or the first of them where they are many; and
    which those are, in words.

    Corrections are made for the choice of the build alone: all others are measured without them, and the build has a
    row of its own.
    """
    from nnkit.inputs import verification_samples
    from nnkit.verify.tasks import task_scorer

    recipe, program = deployment.recipe, deployment.program
    corrected = deployment.lowered
    lowered = corrected.uncorrected or corrected
    samples = verification_samples(recipe, deployment.lowered.model)
    most = _TABLE_SAMPLES if recipe.verify.task is None else _TABLE_SCORED
    scorer = None
    if len(samples) <= most:
        which = "on the images that the build is verified on"
        outputs, inputs = (
            {name: program.tensors[name].shape for name in names} for names in (program.outputs, program.inputs)
        )
        scorer = task_scorer(recipe, outputs, inputs.values(), samples.images)
    else:
        which = f"on the first {most} of the {len(samples)} images that the build is verified on"
    first = [samples[index] for index in range(min(most, len(samples)))]

    def rows(of: NnieLowered, choices: Mapping[str, LayerSet]) -> list[dict[str, Any]]:
        statistics = AlignedStatistics(of, deployment.statistics, formats, deployment.samples, options)
        given = of.network, statistics, formats, first, scorer
        return precision_table(*given, choices=choices, reference=lowered.network, say=deployment.say)

    if corrected is lowered:
        return rows(lowered, usual_choices(lowered.network, built)), which
    others = {NOT_CORRECTED if n == AS_BUILT else n: v for n, v in usual_choices(lowered.network, built).items()}
    table = [*rows(lowered, others), *rows(corrected, {AS_BUILT: built})]
    return table, f"{which}, {AS_BUILT} with corrected weights and the others without"


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


def _bits(segment: NnieSegment, network: Network, options: NnieOptions) -> Callable[[Layer], int]:
    """In which a layer reads; the CPU computes in binary32."""
    if segment.placement == "cpu":
        return lambda layer: 32
    return Precision.of(network, options.compile_mode).bits


def _segment(
    segment: NnieSegment, network: Network, entries: Sequence[Mapping[str, Any]], options: NnieOptions
) -> dict[str, Any]:
    """What runs where, in order. `what`: the part of a split network, or its warp. alive_bytes: an estimate."""
    names = {layer.name for layer in segment.layers}
    what = [entry["name"] for entry in entries if names & set(entry["layers"])]
    what += ["warp"] if network.split_at in names else []
    return {
        "runs_on": "nnie" if segment.placement == "npu" else "cpu",
        "layers": len(segment.layers),
        "first": segment.layers[0].name,
        "last": segment.layers[-1].name,
        "alive_bytes": alive_bytes(network, segment, _bits(segment, network, options)),
        **({"what": ", ".join(what)} if network.split_at is not None else {}),
    }
