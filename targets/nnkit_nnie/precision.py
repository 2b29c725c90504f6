"""Which layers run in 16 bits: the search behind `hp: auto`, and which layers the usual choices are about.

A layer in 16 bits has twice the weight bytes and reads twice the bytes of feature maps; what that costs in time
depends on the chip's memory, and only the vendor's tools or a board can say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import RecipeError
from nnkit.graph import Model
from nnkit.mixed_precision.diagnosis import Diagnosis, layer_cost
from nnkit.mixed_precision.search import LayerSet
from nnkit.program import Fixed, Float, Program
from nnkit.program.inputs import quantized_inputs
from nnkit.samples import Sample
from nnkit_nnie.gfpq.ops import NnieOp
from nnkit_nnie.gfpq.quantize import Precision, to_program
from nnkit_nnie.layers import Layer
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.network import Network
from nnkit_nnie.report_cost import reads_by_bits
from nnkit_nnie.stn.calibration import AlignedStatistics
from nnkit_nnie.trials import AlignedChoices, Choices, TrialRunner

if TYPE_CHECKING:
    pass

MIXED = 2
_LOW_BITS = 8
_CONVOLUTIONS = ("Convolution", "DepthwiseConv", "Deconvolution")
WEIGHTED_KINDS = (*_CONVOLUTIONS, "InnerProduct")


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
            if layer.kind not in WEIGHTED_KINDS:
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


def suggestion(network: Network, compile_mode: int) -> str | None:
    """The usual advice, where the build does not follow it."""
    dense = fully_connected(network)
    if not dense or compile_mode == 1 or dense[-1].hp:
        return None
    return (
        f"the last fully connected layer {dense[-1].name!r} has 8 bits; 16 bits help a projection (PCA) there most "
        "for what they cost: compile_mode: 2 and tags: {hp: [...]}"
    )
