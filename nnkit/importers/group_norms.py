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
    """Rewrite `graph` in place, where scale and bias are constants and ranks are known; a note where it was done.

    Nodes that are not as the operator is defined are left to the checks that tell so.
    """
    from onnx import numpy_helper

    asked = {name for node in graph.node if _is_defined(node, ranks) for name in node.input[1:]}
    if not asked:
        return []
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer if tensor.name in asked}
    names = NamePool(
        {*ranks, *(each.name for each in graph.initializer), *(name for node in graph.node for name in node.output)}
    )
    nodes: list[onnx.NodeProto] = []
    count = 0
    for node in graph.node:
        linear = [weights[name] for name in node.input[1:] if name in weights] if _is_defined(node, ranks) else []
        if len(linear) == 2 and linear[0].shape == linear[1].shape and _fits(linear[0].shape, _groups(node), opset):
            nodes += _parts(graph, node, linear, ranks[node.input[0]], opset, names)
            count += 1
        else:
            nodes.append(node)
    if not count:
        return []
    del graph.node[:]
    graph.node.extend(nodes)
    return [f"{count} group normalisations are written as their parts"]


def _is_defined(node: onnx.NodeProto, ranks: Mapping[str, int]) -> bool:
    """Whether it is a group normalisation, as the operator is defined, of a value of three or more axes."""
    if node.op_type != "GroupNormalization" or node.domain or (len(node.input), len(node.output)) != (3, 1):
        return False
    return ranks.get(node.input[0], 0) > 2 and _groups(node) > 0


def _groups(node: onnx.NodeProto) -> int:
    return next((each.i for each in node.attribute if each.name == "num_groups"), 0)


def _fits(parameters: tuple[int, ...], groups: int, opset: int) -> bool:
    """Whether a scale of that shape is one of channels in so many groups, or of the groups."""
    return len(parameters) == 1 and (parameters[0] % groups == 0 if opset >= _BY_CHANNEL else parameters[0] == groups)


def _parts(
    graph: onnx.GraphProto, node: onnx.NodeProto, linear: list[Floats], rank: int, opset: int, names: NamePool
) -> list[onnx.NodeProto]:
    from onnx import helper, numpy_helper

    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    groups = _groups(node)
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
