"""Weights rounded up or down as their layers' outputs need (`nnkit.quantize.affine.adaround`), for the compiler.

The compiler rounds float weights to the nearest, by scales of its own. So it gets weights that lie on its grid
already, and nothing is left to round; the largest of each scale stays as it is, which keeps the scale. What every
layer reads is observed in float on calibration images.

The errors of one layer may make up for those of another, so the whole is judged as corrected biases are: by the
outputs on held-out images, a quarter of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.program import Program
from nnkit.program.window import Window
from nnkit.quantize.affine.adaround import Moments, adapt
from nnkit.samples import Sample
from nnkit.target import Quantization
from nnkit_tpu.bias_correction import FEWEST, SAMPLES, judged, values_of, weight_scales
from nnkit_tpu.integer_parameters import IntegerWeights
from nnkit_tpu.program import FloatArray, TpuConv, TpuGraph, TpuMatMul, TpuOp

ADAROUND = "adaround"
"""Its name in a recipe's `calibration.corrections`."""

LABEL = "adaptive rounding"
"""Its name in notes."""

_MEASURED = 8  # to observe what layers read, spread evenly over the others
_MOST_INPUTS = 1200  # of one output: the square of it is kept, and worked on for each output
_MOST_WORK = 2e9  # outputs times inputs squared, of all layers together; some seconds
_DAMPING = 0.01  # of the mean square of an input: few images do not tell all directions

Quantise = Callable[[TpuGraph], Program]
Rows = NDArray[np.float64]
"""Weights of a layer as [outputs, inputs / group, kh, kw]."""


def rounds_weights(quantization: Quantization) -> bool:
    """Whether the recipe asks for it; one that leaves method and corrections to us does, with images enough."""
    asked = quantization.calibration.corrections
    if asked is not None:
        return ADAROUND in asked
    return bool(quantization.statistics.trials) and len(quantization.samples(FEWEST)) >= FEWEST


def rounded(
    model: Model, graph: TpuGraph, program: Program, quantization: Quantization, quantise: Quantise
) -> tuple[TpuGraph, Program]:
    """The graph and `program`, which `quantise` made of it, or better ones; a note of the program says which.

    Raises RecipeError where there are too few calibration images.
    """

    def round_on(measured: Sequence[Sample]) -> tuple[TpuGraph, Program]:
        return with_rounded_weights(model, graph, program, measured[:: -(-len(measured) // _MEASURED)], quantise)

    kept, note = judged(LABEL, model, program, quantization, lambda measured: round_on(measured)[1])
    chosen, made = round_on(quantization.samples(SAMPLES)) if kept else (graph, program)
    return chosen, replace(made, notes=(*program.notes, note))


def with_rounded_weights(
    model: Model, graph: TpuGraph, program: Program, samples: Sequence[Sample], quantise: Quantise
) -> tuple[TpuGraph, Program]:
    """The float graph with weights on the grid of `program`, which `quantise` made of it, and what it makes of that.

    Layers whose inputs the model does not have, that are large, or of which the compiler would make other integers,
    stay as they are.
    """
    layers = list(_layers(model, graph, program))
    if not layers:
        return graph, program
    session = FloatSession(model, list(dict.fromkeys(layer.op.inputs[0] for layer in layers)))
    runs = [session.run(sample.inputs) for sample in samples]
    chosen = {layer.op.output: _adapted(layer, [run[layer.op.inputs[0]] for run in runs]) for layer in layers}
    made = _with_weights(graph, layers, chosen)
    again = quantise(made)
    quantised = {op.output: op for op in again.ops}
    taken = {name: each for name, each in chosen.items() if _has_integers(quantised[name], each)}
    if len(taken) < len(chosen):
        made = _with_weights(graph, layers, taken)
        again = quantise(made)
    return made, again


@dataclass(frozen=True, eq=False)
class _Layer:
    """A layer with weights in 8 bits.

    weight, stored: real and as the compiler rounds them. scales: [O], real weight of one stored unit. shape: of what
    it reads, of one image; the model may have the same values in another shape.
    """

    op: TpuConv | TpuMatMul
    weight: Rows
    stored: Rows
    scales: NDArray[np.float64]
    window: Window
    group: int
    shape: tuple[int, ...]

    @property
    def inputs(self) -> int:
        """How many weights one output is made of."""
        return int(np.prod(self.weight.shape[1:]))

    @property
    def largest(self) -> NDArray[np.bool_]:
        """The largest weight of each scale."""
        sizes = np.abs(self.weight)
        axes = (1, 2, 3) if isinstance(self.op, TpuConv) else None
        return np.asarray(sizes == sizes.max(axis=axes, keepdims=True))


def _layers(model: Model, graph: TpuGraph, program: Program) -> Iterator[_Layer]:
    """Those that can be rounded so, the small ones first, as far as the work is bounded."""
    values = values_of(model)
    quantised = {op.output: op for op in program.ops if isinstance(op, TpuOp)}
    layers = []
    for op in graph.ops:
        if isinstance(op, TpuConv | TpuMatMul) and op.inputs[0] in values:
            layer = _layer(op, quantised[op.output], program, graph.tensors[op.inputs[0]].shape[1:])
            if layer is not None and _reads_as_it_is(layer):
                layers.append(layer)
    left = _MOST_WORK
    for layer in sorted(layers, key=_work):
        left -= _work(layer)
        if left < 0:
            return
        yield layer


def _work(layer: _Layer) -> float:
    return float(layer.weight.shape[0]) * layer.inputs**2


def _layer(op: TpuConv | TpuMatMul, quantised: TpuOp, program: Program, shape: tuple[int, ...]) -> _Layer | None:
    if op.weight is None or not isinstance(quantised, TpuConv | TpuMatMul):
        return None
    scales, integer = weight_scales(quantised, program), quantised.integer
    if scales is None or not isinstance(integer, IntegerWeights) or not np.all(scales):
        return None  # a layer in floats, or of outputs that nothing is left of
    weight, whole = _rows(op, op.weight), _rows(op, integer.weight)
    scales = np.broadcast_to(np.ravel(scales), weight.shape[:1])
    if np.abs(weight / scales.reshape(-1, 1, 1, 1) - whole).max() > 0.51:
        return None  # cut, or on another grid
    window, group = (op.window, op.group) if isinstance(op, TpuConv) else (Window(1, 1), 1)
    layer = _Layer(op, weight, whole, scales, window, group, shape)
    return layer if layer.inputs <= _MOST_INPUTS else None


def _rows(op: TpuConv | TpuMatMul, weight: NDArray[np.generic]) -> Rows:
    return (weight if isinstance(op, TpuConv) else weight.T[:, :, None, None]).astype(np.float64)


def _reads_as_it_is(layer: _Layer) -> bool:
    """Whether the layer reads images [C, H, W], or rows of its inputs."""
    if isinstance(layer.op, TpuConv):
        return len(layer.shape) == 3 and layer.shape[0] == layer.weight.shape[1] * layer.group
    return layer.shape[-1:] == (layer.inputs,)


def _adapted(layer: _Layer, inputs: Sequence[NDArray[np.float32]]) -> Rows:
    """The integers of the layer. inputs: what it reads, of every sample."""
    moments = Moments(layer.group, layer.inputs, layer.weight.shape[0] // layer.group)
    for values in inputs:
        moments.add_inputs(_images(layer, values), layer.window, 0.0)
    moments.aim_at(layer.weight, damping=_DAMPING)
    units = layer.weight / layer.scales.reshape(-1, 1, 1, 1)
    fixed = layer.largest | (np.abs(layer.stored) >= np.abs(layer.stored).max())
    adapted, _, _ = adapt(np.where(fixed, layer.stored, units), layer.scales, moments, 0, centred=False)
    return adapted


def _images(layer: _Layer, values: NDArray[np.float32]) -> NDArray[np.float32]:
    if isinstance(layer.op, TpuConv):
        return values.reshape(-1, *layer.shape)
    return values.reshape(-1, layer.inputs).T[None, :, :, None]


def _with_weights(graph: TpuGraph, layers: Sequence[_Layer], integers: Mapping[str, Rows]) -> TpuGraph:
    weights: dict[str, FloatArray] = {}
    for layer in layers:
        if layer.op.output in integers:
            real = integers[layer.op.output] * layer.scales.reshape(-1, 1, 1, 1)
            kept = np.where(layer.largest, layer.weight, real).astype(np.float32)
            weights[layer.op.output] = (
                kept if isinstance(layer.op, TpuConv) else np.ascontiguousarray(kept[:, :, 0, 0].T)
            )
    ops = tuple(
        replace(op, weight=weights[op.output]) if isinstance(op, TpuConv | TpuMatMul) and op.output in weights else op
        for op in graph.ops
    )
    return replace(graph, ops=ops)


def _has_integers(op: object, integers: Rows) -> bool:
    if not isinstance(op, TpuConv | TpuMatMul) or not isinstance(op.integer, IntegerWeights):
        return False
    return np.array_equal(_rows(op, op.integer.weight), integers)
