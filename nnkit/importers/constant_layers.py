"""Layers that compute from constants alone become constants, also where onnxsim cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import onnx
from numpy.typing import NDArray

from nnkit.importers.operators import DEFAULT_DOMAINS
from nnkit.importers.tidy import read_names
from nnkit.importers.value_dims import value_dims

_MOST_BYTES = 64 << 20  # that one network's constants may grow by
_QUANTISATION = ("QuantizeLinear", "DequantizeLinear")


def fold_constant_layers(proto: onnx.ModelProto, run: Callable[[onnx.ModelProto], Sequence[NDArray[Any]]]) -> int:
    """Replace layers that read nothing but constants by what they give, in place; how many.

    proto: with all shapes that can be inferred. Layers that write an output of the network stay, and those whose
    results are of unknown size or larger than 64 MiB together. run: gives the outputs of a model without inputs, some
    of whose weights are set aside.
    """
    layers = _layers(proto.graph)
    if not layers:
        return 0
    part = _part(proto, layers)
    names = [value.name for value in part.graph.output]
    made = [onnx.numpy_helper.from_array(array, name) for name, array in zip(names, run(part), strict=True)]
    gone = {name for node in layers for name in node.output if name}
    graph = proto.graph
    kept = [node for node in graph.node if not gone.intersection(node.output)]
    left = [value for value in graph.value_info if value.name not in gone]
    for field, values in ((graph.node, kept), (graph.value_info, left)):
        del field[:]
        field.extend(values)
    graph.initializer.extend(made)
    return len(layers)


def _layers(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    sizes = {value.name: _bytes(value) for value in graph.value_info}
    constant = {tensor.name for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    layers, size = [], 0
    for node in graph.node:
        read = read_names(node)
        if not read or not read <= constant or outputs.intersection(node.output):
            continue
        if node.domain not in DEFAULT_DOMAINS or _keeps_integers(node):
            continue
        made = [sizes.get(name) for name in node.output if name]
        larger = size + sum(each or 0 for each in made)
        if None in made or larger > _MOST_BYTES:
            continue
        size = larger
        layers.append(node)
        constant.update(node.output)
    return layers


def _keeps_integers(node: onnx.NodeProto) -> bool:
    """Whether it gives or reads a quantised network's stored integers, which are used as they are; integers with
    scales of blocks are weights of a float network."""
    blocks = any(attribute.name == "block_size" and attribute.i for attribute in node.attribute)
    return node.op_type in _QUANTISATION and not blocks


def _bytes(value: onnx.ValueInfoProto) -> int | None:
    """The most that it takes, whatever its type; None where its shape is open."""
    dims = value_dims(value)
    return None if dims is None or -1 in dims else 8 * prod(dims)


def _part(proto: onnx.ModelProto, layers: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """The layers alone. Its outputs are what the other layers read of them."""
    made = {name for node in layers for name in node.output if name}
    read = set().union(*(read_names(node) for node in layers))
    others = [node for node in proto.graph.node if not made.intersection(node.output)]
    wanted = made & set().union(*map(read_names, others))
    part = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    part.graph.name = proto.graph.name or "constants"
    part.graph.node.extend(layers)
    part.graph.initializer.extend(tensor for tensor in proto.graph.initializer if tensor.name in read)
    part.graph.output.extend(value for value in proto.graph.value_info if value.name in wanted)
    return part
