"""The table of the usual choices of layers in 16 bits, side by side: accuracy and cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from nnkit.distance import DistanceSum
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.mixed_precision.search import LayerSet
from nnkit.program import Fixed, Float
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.verify.tasks import output_pairs
from nnkit_nnie.gfpq.quantize import Precision, to_program
from nnkit_nnie.network import Network
from nnkit_nnie.precision import MIXED, WEIGHTED_KINDS, first_convolutions, fully_connected
from nnkit_nnie.report_cost import cost_of
from nnkit_nnie.stn.calibration import AlignedStatistics
from nnkit_nnie.trials import AlignedChoices, Choices, TrialRunner

if TYPE_CHECKING:
    from nnkit.verify.tasks import TaskScorer

WORTHWHILE_DB = 3.0
_DETECTION = "detection"
AS_BUILT = "as_built"
NOT_CORRECTED = "not_corrected"
"""The layers of the build in 16 bits with the weights as they came, where that is none of the usual choices."""


def usual_choices(network: Network, built: LayerSet) -> dict[str, LayerSet]:
    """The layers in 16 bits by the name of the choice; those that are equal to one before are left out.

    `no_hp`: none. `lastfc_hp`: the last fully connected layer (the projection), `fullfc_hp`: all of them; a network
    without any has `lastconv_hp`: the last layers with weights before each of its outputs. `firstconv_hp`: the first
    convolutions with what normalises their images. `all`. `as_built`: those of the build.
    """
    dense = fully_connected(network)
    choices = {"no_hp": frozenset[str]()}
    if dense:
        choices["lastfc_hp"] = frozenset({dense[-1].name})
        choices["fullfc_hp"] = frozenset(layer.name for layer in dense)
    else:
        choices["lastconv_hp"] = last_weighted(network)
    choices["firstconv_hp"] = frozenset(layer.name for layer in first_convolutions(network))
    choices["all"] = _on_the_nnie(network)
    choices[AS_BUILT] = built
    kept: dict[str, LayerSet] = {}
    for name, layers in choices.items():
        if layers not in kept.values():
            kept[name] = layers
    return kept


def _on_the_nnie(network: Network) -> LayerSet:
    return frozenset(layer.name for layer in network.layers if layer.placement == "npu")


def last_weighted(network: Network) -> LayerSet:
    """The layers with weights on the NNIE from which an output is reached without passing another one."""
    wanted = set(network.graph.outputs)
    last = set()
    for layer in reversed(network.layers):
        if not wanted.intersection(layer.outputs):
            continue
        if layer.placement == "npu" and layer.kind in WEIGHTED_KINDS:
            last.add(layer.name)
        else:
            wanted.update(layer.inputs)
    return frozenset(last)


def precision_table(
    network: Network,
    statistics: AlignedStatistics,
    inputs: Mapping[str, Fixed | Float],
    samples: Sequence[Sample],
    scorer: TaskScorer | None = None,
    *,
    choices: Mapping[str, LayerSet] | None = None,
    reference: Network | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """The usual choices side by side, or those given.

    Rows are JSON data: layers, accuracy against float on `samples`, cost.

    scorer: of the recipe's task, for these samples; its metrics are then in each row's `task`.
    choices: layers in 16 bits by name; None for the usual ones. reference: the float network, where the weights of
    `network` are corrected. say: called with the sample that is computed.

    Empty where there is nothing to measure on, or nothing runs on the NNIE.
    """
    choices = usual_choices(network, frozenset()) if choices is None else choices
    every = _on_the_nnie(network)
    if not samples or not every:
        return []

    def made(aligning: LayerSet) -> Choices:
        ranges = statistics.of(Precision(MIXED, aligning))
        low, high = (
            to_program(network, ranges, Precision(MIXED, layers), name="choice", inputs=inputs)
            for layers in (frozenset[str](), every)
        )
        return Choices(low, high)

    programs = AlignedChoices(made, statistics.aligning) if statistics.aligning else made(frozenset())
    runner = TrialRunner(programs)
    session = FloatSession((reference or network).graph.model)
    totals = {name: DistanceSum() for name in choices}
    pairs: dict[str, list[tuple[NDArray[Any], NDArray[Any]]]] = {name: [] for name in choices}
    for number, sample in enumerate(samples, start=1):
        say(f"choices of 16-bit layers, image {number} of {len(samples)}")
        expected = session.run(sample.inputs)
        given = quantized_inputs(programs.low, sample)
        for name, layers in choices.items():
            real = {}
            for output, stored in runner.run(layers, given).items():
                real[output] = programs.low.tensors[output].format.dequantize(stored)
                totals[name].add(real[output], expected[output])
            if scorer is not None:
                pairs[name].append((scorer.read(expected), scorer.read(real)))
    images = [sample.image for sample in samples]
    rows: list[dict[str, Any]] = []
    for name, layers in choices.items():
        listed = [layer.name for layer in network.layers if layer.name in layers]
        row = {
            "choice": name,
            "layers": listed,
            "images": len(images),
            **totals[name].result().as_json(),
            **cost_of(programs.program(layers)),
        }
        if scorer is not None:
            score = scorer.score(*output_pairs(images, pairs[name])).as_json()
            row |= {"task": score["metrics"], "task_kind": score["kind"]}
        rows.append(row)
    return rows


def table_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table for people, a line for each choice. Of a list of detections, distances say nothing."""
    lines = []
    for row in rows:
        detects = row.get("task_kind") == _DETECTION
        scores = [
            f"{metric['name'].replace('_', ' ')} {metric['program']:.4f}"
            for metric in row.get("task", ())
            if metric["program"] is not None and (detects or metric["float"] is not None)
        ]
        parts = scores if detects else [f"cosine {row['cosine']:.6f}", *scores]
        parts.append(f"{row['weight_bytes']:,} B of weights")
        parts.append(f"{row['macs_16_bit'] / max(1, row['macs']):.1%} of MACs in 16 bits")
        if "estimate" in row:
            parts.append(f"about {row['estimate']['milliseconds']:.2f} ms")
        lines.append(f"{row['choice']:<12} {', '.join(parts)}")
    return lines


def better_choice(rows: Sequence[Mapping[str, Any]], built: LayerSet) -> str | None:
    """The first convolutions in 16 bits, for people, where that measures `WORTHWHILE_DB` more than the build.

    A build whose weights are corrected has the last row, and its layers may have another, without corrections.
    """
    first = next((row for row in rows if row["choice"] == "firstconv_hp"), None)
    now = next((row for row in reversed(rows) if frozenset(row["layers"]) == built), None)
    if first is None or now is None or first["sqnr_db"] is None or now["sqnr_db"] is None:
        return None
    if first.get("task_kind") == _DETECTION:
        return None
    if first["sqnr_db"] < now["sqnr_db"] + WORTHWHILE_DB:
        return None
    return (
        f"suggested    the first convolutions in 16 bits, {first['sqnr_db']:.1f} dB instead of {now['sqnr_db']:.1f}: "
        f"compile_mode: 2 and tags: {{hp: [{', '.join(first['layers'])}]}}"
    )
