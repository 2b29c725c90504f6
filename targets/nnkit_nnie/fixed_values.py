"""Values that do not depend on the input: prior boxes, and what is made of them, become constants.

PriorBox reads feature maps for their shapes alone. As a constant it needs no tensor of the NNIE, of which a segment
may hand over few, and no layer in the prototxt.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec
from nnkit.graph.onnx_runtime import FloatSession
from nnkit_nnie.graph import CUSTOM_DOMAIN, Graph, Node


def with_fixed_values(model: Model) -> Model:
    """The same network with prior boxes, and nodes that read nothing but constants, as constants.

    Network outputs stay computed. A model without such nodes is returned as it is.
    """
    graph = Graph(model)
    found: dict[str, NDArray[np.float32]] = {}
    gone: set[int] = set()
    for node in graph.nodes:
        if any(name in graph.outputs for name in node.outputs):
            continue
        arrays = _values(graph, node, found)
        if arrays is not None:
            found.update(arrays)
            gone.add(node.index)
    if not gone:
        return model
    return _rewritten(model, found, gone)


def _values(graph: Graph, node: Node, known: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]] | None:
    """What a node gives whatever the input is; None where it depends on it."""
    computed = [name for name in graph.data_inputs(node) if name not in known]
    if node.op_type == "PriorBox" and node.domain == CUSTOM_DOMAIN:
        return _run(graph, node, {name: np.zeros(graph.shape(name), np.float32) for name in graph.data_inputs(node)})
    if computed or not graph.data_inputs(node):
        return None
    return _run(graph, node, {name: known[name] for name in graph.data_inputs(node)})


def _run(graph: Graph, node: Node, inputs: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    from onnx import TensorProto, helper

    proto = graph.model.proto()
    part = helper.make_graph(
        [proto.graph.node[node.index]],
        "fixed",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, graph.shape(name)) for name in node.outputs],
        [tensor for tensor in proto.graph.initializer if tensor.name in node.inputs],
    )
    single = helper.make_model(part, opset_imports=list(proto.opset_import))
    single.ir_version = proto.ir_version
    session = FloatSession(
        Model(
            single.SerializeToString(),
            LayerTags(),
            tuple(InputSpec(name, tuple(array.shape)) for name, array in inputs.items()),
            tuple(OutputSpec(name, graph.shape(name)) for name in node.outputs),
            graph.model.opset,
        )
    )
    return dict(session.run(inputs))


def _rewritten(model: Model, found: dict[str, NDArray[np.float32]], gone: set[int]) -> Model:
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
        numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in found.items() if name in read
    )
    inner = [value for value in proto.graph.value_info if value.name not in found]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(inner)
    tags = LayerTags({name: tags for name, tags in model.tags.values.items() if name not in found})
    return Model(proto.SerializeToString(), tags, model.inputs, model.outputs, model.opset)
