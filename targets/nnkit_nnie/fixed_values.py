"""Values that do not depend on the input: prior boxes, and what is made of them, become constants.

PriorBox reads feature maps for their shapes alone. As a constant it needs no tensor of the NNIE, of which a segment
may hand over few, and no layer in the prototxt.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.custom_ops import DOMAIN
from nnkit.graph import LayerTags, Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.graph.subgraph import subgraph
from nnkit.graph.view import GraphView, Node


def with_fixed_values(model: Model) -> Model:
    """Make prior boxes, and nodes that read nothing but constants, constants of the network.

    Network outputs stay computed. A model without such nodes is returned as it is.
    """
    graph = GraphView.of(model)
    fixed: dict[str, NDArray[np.float32]] = {}
    gone: set[int] = set()
    for node in graph.nodes:
        if any(name in graph.outputs for name in node.results):
            continue
        arrays = _values(graph, node, fixed)
        if arrays is not None:
            fixed.update(arrays)
            gone.add(node.index)
    if not gone:
        return model
    return _rewritten(model, fixed, gone)


def _values(
    graph: GraphView, node: Node, known: dict[str, NDArray[np.float32]]
) -> dict[str, NDArray[np.float32]] | None:
    """What a node gives whatever the input is; None where it depends on it."""
    computed = [name for name in graph.data_inputs(node) if name not in known]
    if node.op_type == "PriorBox" and node.domain == DOMAIN:
        return _run(graph, node, {name: np.zeros(graph.shape(name), np.float32) for name in graph.data_inputs(node)})
    if computed or not any(node.inputs):
        return None
    return _run(graph, node, {name: known[name] for name in graph.data_inputs(node)})


def _run(graph: GraphView, node: Node, inputs: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    return dict(FloatSession(subgraph(graph, [node], tuple(inputs), node.results)).run(inputs))


def _rewritten(model: Model, fixed: dict[str, NDArray[np.float32]], gone: set[int]) -> Model:
    from onnx import numpy_helper

    proto = model.proto()
    kept = [node for index, node in enumerate(proto.graph.node) if index not in gone]
    read = {name for node in kept for name in node.input}
    del proto.graph.node[:]
    proto.graph.node.extend(kept)
    lasting = [tensor for tensor in proto.graph.initializer if tensor.name in read]
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(lasting)
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in fixed.items() if name in read
    )
    inner = [value for value in proto.graph.value_info if value.name not in fixed]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(inner)
    tags = LayerTags({name: tags for name, tags in model.tags.values.items() if name not in fixed})
    return Model(proto.SerializeToString(), tags, model.inputs, model.outputs, model.opset)
