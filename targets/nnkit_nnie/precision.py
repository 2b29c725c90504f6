"""Which layers run in 16 bits: the search behind `hp: auto`, and the table of the usual choices.

A layer in 16 bits has twice the weight bytes and reads twice the bytes of feature maps; what that costs in time
depends on the chip's memory, and only the vendor's tools or a board can say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from nnkit.calibrate.stats import CalibrationStats
from nnkit.distance import DistanceSum
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.mixed_precision.diagnosis import Diagnosis, layer_cost
from nnkit.mixed_precision.search import LayerSet
from nnkit.program import Fixed, Float, Program
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit.simulate import simulate
from nnkit.verify.tasks import output_pairs
from nnkit_nnie.layers import Layer
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.network import Network
from nnkit_nnie.ops import NnieOp
from nnkit_nnie.quantize import Precision, to_program
from nnkit_nnie.report_cost import cost_of, reads_by_bits
from nnkit_nnie.stn_calibration import AlignedStatistics
from nnkit_nnie.trials import AlignedChoices, Choices, TrialRunner

if TYPE_CHECKING:
    from nnkit.verify.tasks import TaskScorer

MIXED = 2
_LOW_BITS = 8
_CONVOLUTIONS = ("Convolution", "DepthwiseConv", "Deconvolution")
_WEIGHTED = (*_CONVOLUTIONS, "InnerProduct")


class NnieDiagnosis(Diagnosis):
    """The network with any set of its layers in 16 bits; candidates are the layers that read through GFPQ.

    Those without weights count too: raw pixels that lose their last bits before the mean is subtracted are lost for
    good, and such a layer in 16 bits costs nothing but the bytes that it reads.
    """

    def __init__(
        self,
        original: Model,
        lowered: NnieLowered,
        stats: CalibrationStats,
        compile_mode: int,
        inputs: Mapping[str, Fixed | Float],
        aligned: AlignedStatistics | None = None,
    ) -> None:
        """inputs: formats of the network's inputs. aligned: statistics that depend on which layers have 16 bits, and
        then take the place of `stats`.

        Raises RecipeError where the compile mode leaves nothing to choose.
        """
        if compile_mode != MIXED:
            raise RecipeError(
                f"`hp: auto` chooses 16-bit layers, but compile_mode {compile_mode} fixes all of them",
                remedy="write compile_mode: 2, or remove `hp: auto`",
            )
        self._original, self._model, self._stats = original, lowered.model, stats
        self._network = lowered.network
        self._inputs = inputs
        self._tagged = frozenset(layer.name for layer in self._network.layers if layer.hp)
        self._aligned = aligned
        plain = self._built(frozenset())
        ops = {op.name: op for op in plain.ops if isinstance(op, NnieOp) and reads_by_bits(op)}
        self.layers = tuple(
            layer_cost(layer.name, layer.main.outputs[0], ops[layer.name], plain)
            for layer in self._network.layers
            if layer.name in ops and not layer.hp
        )
        self._choices: Choices | AlignedChoices
        if self._aligned is not None and self._aligned.aligning:
            self._choices = AlignedChoices(self._choices_with, self._aligned.aligning)
        else:
            self._choices = self._choices_with(frozenset())
        self._runner = TrialRunner(self._choices)

    def program(self, layers: LayerSet) -> Program:
        """The Program with these layers, and those that are tagged, in 16 bits."""
        return self._choices.program(layers)

    def run(self, program: Program, layers: LayerSet, sample: Sample) -> Mapping[str, NDArray[Any]]:
        """The outputs, stored; what an earlier set of layers has in common is not computed again."""
        return self._runner.run(layers, quantized_inputs(program, sample))

    def _choices_with(self, aligning: LayerSet) -> Choices:
        """All layers in 8 bits and all in 16, by the statistics that hold where `aligning` have 16."""
        every = frozenset(layer.name for layer in self.layers)
        return Choices(self._built(frozenset(), aligning), self._built(every, aligning))

    def _built(self, layers: LayerSet, aligning: LayerSet | None = None) -> Program:
        """aligning: layers in 16 bits for the statistics; None: `layers`."""
        statistics = self._stats
        if self._aligned is not None:
            wanted = layers if aligning is None else aligning
            statistics = self._aligned.of(Precision(MIXED, self._tagged | wanted))
        precision = Precision(MIXED, self._tagged | layers)
        return to_program(self._network, statistics, precision, name="trial", inputs=self._inputs)


def first_convolutions(network: Network) -> tuple[Layer, ...]:
    """The first layer with weights behind every image, and the layers that normalise the image before it.

    An image is an input of the network, or what a warp makes of one.
    """
    images = {spec.name for spec in network.graph.model.inputs}
    first = []
    for layer in network.layers:
        if layer.name == network.split_at:
            images.update(layer.outputs)
        elif layer.placement == "npu" and layer.inputs and images.issuperset(layer.inputs):
            first.append(layer)
            if layer.kind not in _WEIGHTED:
                images.update(layer.outputs)
    return tuple(first)


def sixteen_bit_layers(network: Network, compile_mode: int) -> LayerSet:
    """The layers of the NNIE that a build has in 16 bits."""
    precision = Precision.of(network, compile_mode)
    return frozenset(
        layer.name for layer in network.layers if layer.placement == "npu" and precision.bits(layer) != _LOW_BITS
    )


def fully_connected(network: Network) -> tuple[Layer, ...]:
    """Layers that make a vector of their whole input: InnerProduct, and convolutions with a window as large.

    A layer in the midst of convolutions is none, even where its map has one pixel: the small end of a detector.
    """
    windowed: set[str] = set()  # values that a convolution with a smaller window comes to read, on the NNIE
    connected = []
    for layer in reversed(network.layers):
        if layer.placement != "npu":
            continue
        convolves = layer.kind in _CONVOLUTIONS
        dense = layer.kind == "InnerProduct" or (layer.kind == "Convolution" and _sees_everything(network, layer))
        behind = any(value in windowed for value in layer.outputs)
        if dense and not behind:
            connected.append(layer)
        if behind or (convolves and not dense):
            windowed.update(layer.inputs)
    return tuple(reversed(connected))


def _sees_everything(network: Network, layer: Layer) -> bool:
    shape, result = network.graph.shape(layer.inputs[0]), network.graph.shape(layer.main.outputs[0])
    kernel = network.graph.shape(layer.main.inputs[1])[2:]
    return len(result) == 4 and result[2:] == (1, 1) and tuple(kernel) == tuple(shape[2:])


def precision_table(
    network: Network,
    statistics: Callable[[Precision], CalibrationStats],
    inputs: Mapping[str, Fixed | Float],
    samples: Sequence[Sample],
    scorer: TaskScorer | None = None,
    *,
    built: LayerSet = frozenset(),
) -> list[dict[str, Any]]:
    """The usual choices side by side: no layer in 16 bits, the last fully connected one (the projection), all fully
    connected ones, the first convolutions with what normalises their images, and every layer.

    Rows are JSON data: layers, accuracy against float on `samples`, cost.

    statistics: those that hold with a precision of the layers.
    scorer: of the recipe's task, for these samples; its metrics are then in each row's `task`.
    built: the layers that have 16 bits in the build, a row of its own (`as_built`) where it is none of the others.

    Empty where the network has no fully connected layer, or nothing to measure on.
    """
    dense = fully_connected(network)
    if not dense or not samples:
        return []
    every = frozenset(layer.name for layer in network.layers if layer.placement == "npu")
    choices = {
        "no_hp": frozenset[str](),
        "lastfc_hp": frozenset({dense[-1].name}),
        "fullfc_hp": frozenset(layer.name for layer in dense),
        "firstconv_hp": frozenset(layer.name for layer in first_convolutions(network)),
        "all": every,
    }
    if built not in choices.values():
        choices["as_built"] = built
    session = FloatSession(network.graph.model)
    expected = [session.run(sample.inputs) for sample in samples]
    rows: list[dict[str, Any]] = []
    for name, layers in choices.items():
        if name == "fullfc_hp" and layers == choices["lastfc_hp"]:
            continue
        precision = Precision(MIXED, layers)
        program = to_program(network, statistics(precision), precision, name=name, inputs=inputs)
        total = DistanceSum()
        pairs: list[tuple[NDArray[Any], NDArray[Any]]] = []
        for sample, reference in zip(samples, expected, strict=True):
            stored = simulate(program, quantized_inputs(program, sample))
            for output in program.outputs:
                real = program.tensors[output].format.dequantize(stored[output])
                total.add(real, reference[output])
                if scorer is not None and output == scorer.output:
                    pairs.append((reference[output], real))
        listed = [layer.name for layer in network.layers if layer.name in layers]
        row = {"choice": name, "layers": listed, **total.result().as_json(), **cost_of(program)}
        if scorer is not None:
            row["task"] = scorer.score(*output_pairs([sample.image for sample in samples], pairs)).as_json()[
                "metrics"
            ]
        rows.append(row)
    return rows


def table_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table for people, a line for each choice."""
    lines = []
    for row in rows:
        scores = [
            f"{metric['name'].replace('_', ' ')} {metric['program']:.4f}"
            for metric in row.get("task", ())
            if metric["program"] is not None and metric["float"] is not None
        ]
        parts = [f"cosine {row['cosine']:.6f}", *scores, f"{row['weight_bytes']:,} B of weights"]
        parts.append(f"{row['macs_16_bit'] / max(1, row['macs']):.1%} of MACs in 16 bits")
        lines.append(f"{row['choice']:<12} {', '.join(parts)}")
    return lines


WORTHWHILE_DB = 3.0


def better_choice(rows: Sequence[Mapping[str, Any]], built: LayerSet) -> str | None:
    """The first convolutions in 16 bits, for people, where that measures `WORTHWHILE_DB` more than the build."""
    first = next((row for row in rows if row["choice"] == "firstconv_hp"), None)
    now = next((row for row in rows if frozenset(row["layers"]) == built), None)
    if first is None or now is None or first["sqnr_db"] is None or now["sqnr_db"] is None:
        return None
    if first["sqnr_db"] < now["sqnr_db"] + WORTHWHILE_DB:
        return None
    return (
        f"suggested    the first convolutions in 16 bits, {first['sqnr_db']:.1f} dB instead of {now['sqnr_db']:.1f}: "
        f"compile_mode: 2 and tags: {{hp: [{', '.join(first['layers'])}]}}"
    )


def suggestion(network: Network, compile_mode: int) -> str | None:
    """The usual advice, where the build does not follow it."""
    dense = fully_connected(network)
    if not dense or compile_mode == 1 or dense[-1].hp:
        return None
    return (
        f"the last fully connected layer {dense[-1].name!r} has 8 bits; 16 bits help a projection (PCA) there most "
        "for what they cost: compile_mode: 2 and tags: {hp: [...]}"
    )
