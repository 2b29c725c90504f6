"""Where an affine program loses accuracy, layer by layer, without any search; see `nnkit.layer_error`.

A layer can also run in float inside the program (`mixed_outputs`), which shows what it would gain there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.clip_rate import ClipSum
from nnkit.distance import DistanceSum
from nnkit.errors import InternalError
from nnkit.layer_error import LayerError
from nnkit.program.affine import AffineProgram, AffineTensor
from nnkit.quantize.affine.build import split_pools
from nnkit.quantize.affine.float_run import activate, before_activation
from nnkit.quantize.float_program import FloatOp, FloatProgram

_PART = 8  # samples that are run together: memory does not grow with their number

Samples = Mapping[str, NDArray[np.float32]]


def diagnose(lowered: FloatProgram, program: AffineProgram, samples: Samples) -> tuple[LayerError, ...]:
    """Every layer of the program that computes or moves values, in its order.

    lowered: what the program was quantised from. samples: [N, ...] in real units, by input name.
    """
    layers = _layers(lowered, program)
    sums = _errors(layers, program, samples)
    return tuple(
        LayerError(
            layer.name,
            layer.output,
            sums[layer.output].isolated.result().sqnr_db,
            sums[layer.output].cumulative.result().sqnr_db,
            sums[layer.output].clip.rate,
        )
        for layer in layers.ops
    )


def mixed_outputs(
    lowered: FloatProgram, program: AffineProgram, samples: Samples, float_layers: Set[str]
) -> dict[str, NDArray[np.float64]]:
    """The program's outputs in real units with the layers of these names in float, weights and output too.

    An integer layer that reads a float one's output still rounds it to that value's format.
    """
    layers = _layers(lowered, program)
    parts: dict[str, list[NDArray[np.float64]]] = {name: [] for name in program.outputs}
    for part in _parts(samples):
        values = dict(_mixed(layers, program, part, float_layers))
        for name in program.outputs:
            parts[name].append(values[name])
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}


class _Errors:
    def __init__(self, tensor: AffineTensor) -> None:
        self.isolated, self.cumulative, self.clip = DistanceSum(), DistanceSum(), ClipSum(tensor)


def _layers(lowered: FloatProgram, program: AffineProgram) -> FloatProgram:
    layers = split_pools(lowered)
    if [layer.output for layer in layers.ops] != [op.output for op in program.ops]:
        raise InternalError("the program was not quantised from this network", where=program.name)
    return layers


def _parts(samples: Samples) -> Iterator[Samples]:
    count = len(next(iter(samples.values())))
    for start in range(0, count, _PART):
        yield {name: values[start : start + _PART] for name, values in samples.items()}


def _stored(values: NDArray[Any], tensor: AffineTensor) -> NDArray[Any]:
    return np.asarray(tensor.format.quantize(values).astype(tensor.format.dtype))


def _errors(layers: FloatProgram, program: AffineProgram, samples: Samples) -> dict[str, _Errors]:
    sums = {layer.output: _Errors(program.tensors[layer.output]) for layer in layers.ops}
    last = {name: index for index, layer in enumerate(layers.ops) for name in layer.inputs}
    for part in _parts(samples):
        real: dict[str, NDArray[Any]] = {name: part[name] for name in layers.inputs}
        stored = {name: _stored(part[name], program.tensors[name]) for name in layers.inputs}
        for index, (layer, op) in enumerate(zip(layers.ops, program.ops, strict=True)):
            tensor, errors = program.tensors[layer.output], sums[layer.output]
            expected = _float(layer, [real[name] for name in layer.inputs], layers)
            rounded = [_stored(real[name], program.tensors[name]) for name in layer.inputs]
            alone = op.compute_many(rounded, program.tensors)
            stored[layer.output] = op.compute_many([stored[name] for name in layer.inputs], program.tensors)
            errors.isolated.add(tensor.format.dequantize(alone), expected)
            errors.cumulative.add(tensor.format.dequantize(stored[layer.output]), expected)
            errors.clip.add(expected)
            real[layer.output] = expected
            for name in (*layer.inputs, layer.output):
                if last.get(name, index) == index:  # nobody reads it any more
                    real.pop(name, None)
                    stored.pop(name, None)
    return sums


def _mixed(
    layers: FloatProgram, program: AffineProgram, samples: Samples, float_layers: Set[str]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    real: dict[str, NDArray[Any]] = {}
    stored: dict[str, NDArray[Any]] = {}
    for name in layers.inputs:
        real[name] = samples[name]
    for layer, op in zip(layers.ops, program.ops, strict=True):
        tensor = program.tensors[layer.output]
        if layer.name in float_layers:
            real[layer.output] = _float(layer, [real[name] for name in layer.inputs], layers)
        else:
            codes = []
            for name in layer.inputs:
                if name not in stored:
                    stored[name] = _stored(real[name], program.tensors[name])
                codes.append(stored[name])
            stored[layer.output] = op.compute_many(codes, program.tensors)
            real[layer.output] = tensor.format.dequantize(stored[layer.output]).astype(np.float32)
    for name in program.outputs:
        yield name, real[name].astype(np.float64)


def _float(layer: FloatOp, inputs: list[NDArray[Any]], layers: FloatProgram) -> NDArray[Any]:
    return activate(before_activation(layer, inputs, layers.shapes[layer.output]), layer.nonlinearity)
