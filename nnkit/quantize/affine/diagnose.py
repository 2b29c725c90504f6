"""Where an affine program loses accuracy, layer by layer, without any search.

Of a layer: *isolated* is the SQNR of its output when its inputs are the float network's, rounded to their formats:
what this layer alone adds. *Cumulative* is that of its output in the program, with the errors of the layers before.
*Clip rate* is the share of its values that its float output has beyond what its format holds. A layer can also run in
float inside the program (`mixed_outputs`), which shows what it would gain there, and is what a search for layers to
exclude measures (`float_layer_measurer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import InternalError
from nnkit.graph import Model
from nnkit.program.affine import AffineConv, AffineMove, AffineProgram, AffineTensor
from nnkit.quantize.affine.build import split_pools
from nnkit.quantize.affine.float_run import activate, before_activation
from nnkit.quantize.layers import FloatLayer, FloatLayers
from nnkit.quantize.lowering import lower
from nnkit.quantize.mixed_precision import Candidate, LayerSet, Trial
from nnkit.simulate.affine import run_op
from nnkit.verify.metrics import Distance, DistanceSum

_PART = 8  # samples that are run together: memory does not grow with their number

Samples = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class LayerDiagnosis:
    """Of one layer on the given samples. held_out_db: cumulative on other ones (None where there are none)."""

    name: str
    value: str
    isolated_db: float
    cumulative_db: float
    clip_rate: float
    held_out_db: float | None = None

    @property
    def gap_db(self) -> float | None:
        """What the layer loses on inputs that calibration has not seen, in dB; None where there are none."""
        return None if self.held_out_db is None else self.cumulative_db - self.held_out_db


def diagnose(
    model: Model, program: AffineProgram, samples: Samples, held_out: Samples | None = None
) -> tuple[LayerDiagnosis, ...]:
    """Every layer of the program that computes or moves values, in its order.

    model: the one that the program was quantised from. samples, held_out: [N, ...] in real units, by input name.
    """
    layers = _layers(model, program)
    seen = _errors(layers, program, samples)
    other = None if held_out is None else _errors(layers, program, held_out)
    return tuple(
        LayerDiagnosis(
            layer.name,
            layer.output,
            seen[layer.output].isolated.result().sqnr_db,
            seen[layer.output].cumulative.result().sqnr_db,
            seen[layer.output].clipped / max(seen[layer.output].values, 1),
            None if other is None else other[layer.output].cumulative.result().sqnr_db,
        )
        for layer in layers.layers
    )


def by_sensitivity(found: tuple[LayerDiagnosis, ...]) -> tuple[LayerDiagnosis, ...]:
    """The layers that add most error of their own first; those that add none are left out."""
    return tuple(sorted((f for f in found if np.isfinite(f.isolated_db)), key=lambda layer: layer.isolated_db))


def mixed_outputs(
    model: Model, program: AffineProgram, samples: Samples, float_layers: LayerSet
) -> dict[str, NDArray[np.float64]]:
    """The program's outputs in real units with the layers of these names in float, weights and output too.

    An integer layer that reads a float one's output still rounds it to that value's format.
    """
    layers = _layers(model, program)
    parts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in program.outputs}
    for part in _parts(samples):
        values = dict(_mixed(layers, program, part, float_layers))
        for name in program.outputs:
            parts[name].append(values[name])
    return {name: np.concatenate(found) for name, found in parts.items()}


def float_layer_measurer(
    model: Model,
    program: AffineProgram,
    samples: Samples,
    reference: Mapping[str, NDArray[Any]],
    judge: Callable[[Distance], str] = lambda distance: "",
) -> tuple[tuple[Candidate, ...], Callable[[LayerSet], Trial]]:
    """Candidates and `measure` for `search` and `search_budget`: which layers to leave in float.

    Layers that only move values are no candidates; the others cost the bytes that their weights take more in float.
    judge: the gate that a distance fails, in words;
    empty where it fails none.
    """
    candidates = tuple(
        Candidate(op.name, (4 - op.weight_format.bytes) * op.weight.size if isinstance(op, AffineConv) else 0)
        for op in program.ops
        if not isinstance(op, AffineMove)
    )

    def measure(layers: LayerSet) -> Trial:
        total = DistanceSum()
        for name, found in mixed_outputs(model, program, samples, layers).items():
            total.add(found, reference[name])
        distance = total.result()
        return Trial(layers, distance.cosine, distance.sqnr_db, distance.max_abs, judge(distance))

    return candidates, measure


class _Errors:
    def __init__(self) -> None:
        self.isolated, self.cumulative = DistanceSum(), DistanceSum()
        self.clipped = self.values = 0


def _layers(model: Model, program: AffineProgram) -> FloatLayers:
    layers = split_pools(lower(model))
    if [layer.output for layer in layers.layers] != [op.output for op in program.ops]:
        raise InternalError("the program was not quantised from this model", where=program.name)
    return layers


def _parts(samples: Samples) -> Iterator[Samples]:
    count = len(next(iter(samples.values())))
    for start in range(0, count, _PART):
        yield {name: values[start : start + _PART] for name, values in samples.items()}


def _stored(values: NDArray[Any], tensor: AffineTensor) -> NDArray[Any]:
    return np.asarray(tensor.format.quantize(values).astype(tensor.format.dtype))


def _errors(layers: FloatLayers, program: AffineProgram, samples: Samples) -> dict[str, _Errors]:
    found = {layer.output: _Errors() for layer in layers.layers}
    last = {name: index for index, layer in enumerate(layers.layers) for name in layer.inputs}
    for part in _parts(samples):
        real: dict[str, NDArray[Any]] = {name: part[name] for name in layers.inputs}
        stored = {name: _stored(part[name], program.tensors[name]) for name in layers.inputs}
        for index, (layer, op) in enumerate(zip(layers.layers, program.ops, strict=True)):
            tensor, errors = program.tensors[layer.output], found[layer.output]
            expected = _float(layer, [real[name] for name in layer.inputs], layers)
            alone = run_op(op, [_stored(real[name], program.tensors[name]) for name in layer.inputs], program.tensors)
            stored[layer.output] = run_op(op, [stored[name] for name in layer.inputs], program.tensors)
            errors.isolated.add(tensor.format.dequantize(alone), expected)
            errors.cumulative.add(tensor.format.dequantize(stored[layer.output]), expected)
            low, high = ((end - tensor.zero_point) * tensor.scale for end in (tensor.format.qmin, tensor.format.qmax))
            half = tensor.scale / 2
            errors.clipped += int(((expected < low - half) | (expected > high + half)).sum())
            errors.values += expected.size
            real[layer.output] = expected
            for name in (*layer.inputs, layer.output):
                if last.get(name, index) == index:  # nobody reads it any more
                    real.pop(name, None)
                    stored.pop(name, None)
    return found


def _mixed(
    layers: FloatLayers, program: AffineProgram, samples: Samples, float_layers: LayerSet
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    real: dict[str, NDArray[Any]] = {}
    stored: dict[str, NDArray[Any]] = {}
    for name in layers.inputs:
        real[name] = samples[name]
    for layer, op in zip(layers.layers, program.ops, strict=True):
        tensor = program.tensors[layer.output]
        if layer.name in float_layers:
            real[layer.output] = _float(layer, [real[name] for name in layer.inputs], layers)
        else:
            codes = []
            for name in layer.inputs:
                if name not in stored:
                    stored[name] = _stored(real[name], program.tensors[name])
                codes.append(stored[name])
            stored[layer.output] = run_op(op, codes, program.tensors)
            real[layer.output] = tensor.format.dequantize(stored[layer.output]).astype(np.float32)
    for name in program.outputs:
        yield name, real[name].astype(np.float64)


def _float(layer: FloatLayer, inputs: list[NDArray[Any]], layers: FloatLayers) -> NDArray[Any]:
    return activate(before_activation(layer, inputs, layers.shapes[layer.output]), layer.activation)
