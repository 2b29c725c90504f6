"""A model in QDQ form -> float network, ranges, and the integer weights that it brought along.

QuantizeLinear / DequantizeLinear pairs around activations go; what they say of ranges is kept. A DequantizeLinear of
a constant becomes the float constant that it computes, and for the weights of convolutions and matrix products the
stored integers are kept too: the quantiser then uses them as they are, with their own scales and zero points, unless
a rewrite has changed the weights in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.qdq import read_qdq_formats, read_qdq_ranges
from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.errors import ModelError
from nnkit.program import Affine
from nnkit.quantize.float_program import StoredWeights

if TYPE_CHECKING:
    import onnx

_QUANTISATION = ("QuantizeLinear", "DequantizeLinear")
_WITH_WEIGHTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Identity")
_SIGNED = (*_WITH_WEIGHTS, "Add", "Sub", "Mul", "BatchNormalization")


@dataclass(frozen=True, eq=False)
class QdqNetwork:
    """The float network, and what its QDQ form said: ranges and formats by value, integer weights by layer name."""

    float_model: onnx.ModelProto
    ranges: Mapping[str, ValueRange]
    weights: Mapping[str, StoredWeights]
    formats: Mapping[str, Affine]

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", MappingProxyType(dict(self.ranges)))
        object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))
        object.__setattr__(self, "formats", MappingProxyType(dict(self.formats)))

    def statistics(self) -> CalibrationStats:
        """The ranges as a pinned calibration, which is to give the same formats."""
        return CalibrationStats(self.ranges, "formats", 0, "")


def read_qdq(model: onnx.ModelProto) -> QdqNetwork:
    """Take the QDQ form apart. The model is not changed.

    Raises ModelError where it has no QDQ nodes, a scale is computed at run time, or scales are those of blocks.
    """
    from onnx import ModelProto, numpy_helper

    for node in model.graph.node:
        if node.op_type in _QUANTISATION and any(each.name == "block_size" and each.i for each in node.attribute):
            raise ModelError(
                "its integers have scales of blocks; they are taken with one scale a value, or one a channel",
                where=node.name or node.output[0],
                remedy="give the float network, or quantise it with one scale a channel",
            )
    if not any(node.op_type == "DequantizeLinear" for node in model.graph.node):
        raise ModelError("the model has no DequantizeLinear nodes", remedy="give a model in QDQ form")
    ranges = read_qdq_ranges(model)
    formats = read_qdq_formats(model)
    result = ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    stored: dict[str, StoredWeights] = {}
    stands_for: dict[str, str] = {}  # value -> the value it is a quantised form of
    kept = []
    for node in graph.node:
        if node.op_type == "QuantizeLinear":
            stands_for[node.output[0]] = stands_for.get(node.input[0], node.input[0])
        elif node.op_type == "DequantizeLinear":
            if node.input[0] in constants:
                weights = _stored(node, constants)
                stored[node.output[0]] = weights
                graph.initializer.append(numpy_helper.from_array(weights.real().astype(np.float32), node.output[0]))
            else:
                stands_for[node.output[0]] = stands_for.get(node.input[0], node.input[0])
        else:
            kept.append(node)
    outputs = {value.name for value in graph.output}
    for node in kept:
        node.input[:] = [stands_for.get(name, name) for name in node.input]
    kept = _without_constant(_MOVES, kept, graph)
    nodes = _with_names(_with_relus(kept, ranges), outputs, stands_for, {value.name for value in graph.input})
    del graph.node[:]
    graph.node.extend(nodes)
    read = {name for node in nodes for name in node.input}
    used = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(used)
    del graph.value_info[:]
    for name in sorted(outputs & set(stands_for)):
        if stands_for[name] in ranges:
            ranges[name] = ranges[stands_for[name]]
            formats[name] = formats[stands_for[name]]
    by_layer = {
        node.name or node.output[0]: stored[node.input[1]]
        for node in kept
        if node.op_type in _WITH_WEIGHTS
        and node.input[1] in stored
        and stored[node.input[1]].values.dtype in (np.int8, np.int16)
    }
    return QdqNetwork(result, ranges, by_layer, formats)


def with_stored_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which weights that the file has as floats, and quantises, are the integers that this gives."""
    from onnx import ModelProto

    result = ModelProto()
    result.CopyFrom(model)
    nodes = _without_constant((*_MOVES, "QuantizeLinear"), list(result.graph.node), result.graph)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    return result


def _without_constant(
    kinds: Sequence[str], nodes: Sequence[onnx.NodeProto], graph: onnx.GraphProto
) -> list[onnx.NodeProto]:
    """The nodes but those of these kinds that read constants alone; their results become constants."""
    from onnx import numpy_helper
    from onnx.reference import ReferenceEvaluator

    constants = {tensor.name: tensor for tensor in graph.initializer}
    read_by_them = {name for node in nodes if node.op_type in kinds for name in node.input}
    left = []
    for node in nodes:
        names = [name for name in node.input if name]
        shared = node.op_type == "DequantizeLinear" and node.output[0] in read_by_them  # equal weights, stored once
        if not (shared or node.op_type in kinds) or any(name not in constants for name in names):
            left.append(node)
            continue
        given = {name: numpy_helper.to_array(constants[name]) for name in names}
        values: list[Any] = list(ReferenceEvaluator(node).run(None, given))
        moved = numpy_helper.from_array(np.asarray(values[0]), node.output[0])
        constants[node.output[0]] = moved
        if shared:
            left.append(node)
        else:
            graph.initializer.append(moved)
    return left


def _with_relus(nodes: Sequence[onnx.NodeProto], ranges: Mapping[str, ValueRange]) -> list[onnx.NodeProto]:
    """A Relu where quantisation itself cut off what is negative: writers of QDQ models leave Relus out there."""
    from onnx import helper

    result = []
    for node in nodes:
        result.append(node)
        value = node.output[0]
        if node.op_type in _SIGNED and value in ranges and ranges[value].low == 0.0:
            node.output[0] = f"{value}.before_relu"
            result.append(helper.make_node("Relu", [node.output[0]], [value], name=f"{value}.relu"))
    return result


def _with_names(
    nodes: list[onnx.NodeProto], outputs: set[str], stands_for: Mapping[str, str], inputs: set[str]
) -> list[onnx.NodeProto]:
    """Outputs that were dequantised values keep their names: their producers take them, or else an Identity does."""
    from onnx import helper

    for name in sorted(outputs & set(stands_for)):
        value = stands_for[name]
        if value in inputs or value in outputs:
            nodes.append(helper.make_node("Identity", [value], [name], name=name))
            continue
        for node in nodes:
            node.input[:] = [name if each == value else each for each in node.input]
            node.output[:] = [name if each == value else each for each in node.output]
        outputs = outputs | {value}  # taken: a second output of it gets an Identity of the first
        stands_for = {key: name if each == value else each for key, each in stands_for.items()}
    return nodes


def _stored(node: onnx.NodeProto, constants: Mapping[str, NDArray[Any]]) -> StoredWeights:
    if any(name not in constants for name in node.input if name):
        raise ModelError("its scale or zero point is computed at run time", where=node.name or node.output[0])
    values, scale = constants[node.input[0]], np.atleast_1d(constants[node.input[1]]).astype(np.float64)
    has_zero = len(node.input) > 2 and bool(node.input[2])
    zero = np.atleast_1d(constants[node.input[2]]).astype(np.int64) if has_zero else np.zeros(scale.size, np.int64)
    axis = next((int(attribute.i) for attribute in node.attribute if attribute.name == "axis"), 1)
    if values.dtype in (np.uint8, np.uint16):  # the same numbers, half of the range lower
        half = (np.iinfo(values.dtype).max + 1) // 2
        values, zero = (values.astype(np.int64) - half).astype(values.dtype.str.replace("u", "i")), zero - half
    return StoredWeights(values, scale, zero, None if scale.size == 1 else axis % max(values.ndim, 1))
