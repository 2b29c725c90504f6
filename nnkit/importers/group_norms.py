"""GroupNormalization, which ONNX infers no shapes of, as the parts that exporters write for older operator sets.

An instance normalisation of the groups, between two reshapes; then, from operator set 21 on, scale and bias of each
channel, before that of each group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.names import NamePool

if TYPE_CHECKING:
    import onnx

Floats = NDArray[Any]

_BY_CHANNEL = 21  # the operator set from which on scale and bias are those of channels


def ranks_of(graph: onnx.GraphProto) -> Mapping[str, int]:
    """How many axes values have, as far as the file says so."""
    values = (*graph.value_info, *graph.input, *graph.output)
    return {value.name: len(value.type.tensor_type.shape.dim) for value in values}


def group_norms_to_parts(graph: onnx.GraphProto, opset: int, ranks: Mapping[str, int]) -> list[str]:
    """Rewrite `graph` in place, where scale and bias are constants and ranks are known; a note where it was done."""
    from onnx import numpy_helper

    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    names = NamePool({*ranks, *weights, *(name for node in graph.node for name in node.output)})
    nodes: list[onnx.NodeProto] = []
    count = 0
    for node in graph.node:
        known = node.op_type == "GroupNormalization" and not node.domain and len(node.input) == 3
        rank = ranks.get(node.input[0], 0)
        if known and all(name in weights for name in node.input[1:]) and rank > 2:
            nodes += _parts(graph, node, [weights[name] for name in node.input[1:]], rank, opset, names)
            count += 1
        else:
            nodes.append(node)
    if not count:
        return []
    del graph.node[:]
    graph.node.extend(nodes)
    return [f"{count} group normalisations are written as their parts"]


def _parts(
    graph: onnx.GraphProto, node: onnx.NodeProto, linear: list[Floats], rank: int, opset: int, names: NamePool
) -> list[onnx.NodeProto]:
    from onnx import helper, numpy_helper

    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    groups = int(attributes["num_groups"])
    made: list[onnx.NodeProto] = []
    gain, offset = linear

    def constant(part: str, array: Floats | NDArray[np.int64]) -> str:
        name = names.free(f"{node.name}.{part}")
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def add(op: str, inputs: list[str], part: str, **of_op: Any) -> str:
        name = names.free(f"{node.name}_{part}") if part else node.name
        output = names.free(f"{name}_out") if part else node.output[0]
        made.append(helper.make_node(op, inputs, [output], name, **of_op))
        return output

    rows = add("Reshape", [node.input[0], constant("rows", np.array([0, groups, -1], np.int64))], "rows")
    by_channel = opset >= _BY_CHANNEL
    of_rows = (np.ones(groups, gain.dtype), np.zeros(groups, gain.dtype)) if by_channel else (gain, offset)
    inputs = [rows, constant("ones", of_rows[0]), constant("zeros", of_rows[1])]
    normal = add("InstanceNormalization", inputs, "normal", epsilon=float(attributes.get("epsilon", 1e-5)))
    shape = add("Shape", [node.input[0]], "shape")
    back = add("Reshape", [normal, shape], "back" if by_channel else "")
    if by_channel:
        channels = (-1, *(1,) * (rank - 2))
        scaled = add("Mul", [back, constant("scale", gain.reshape(channels))], "scaled")
        add("Add", [scaled, constant("bias", offset.reshape(channels))], "")
    return made
