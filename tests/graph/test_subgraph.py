"""Parts of a network as networks of their own, held to ONNX Runtime on the whole."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from nnkit.graph import LayerTags, Model, OutputSpec
from nnkit.graph.model import InputSpec
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.graph.subgraph import subgraph
from nnkit.graph.view import GraphView


def chain(count: int) -> Model:
    """x + 1 + 2 + ..., each addition with a constant of its own."""
    nodes = [helper.make_node("Add", [f"t{i}", f"c{i}"], [f"t{i + 1}"], name=f"n{i}") for i in range(count)]
    constants = [helper.make_tensor(f"c{i}", TensorProto.FLOAT, [2], [i + 1.0] * 2) for i in range(count)]
    values = [helper.make_tensor_value_info(f"t{i}", TensorProto.FLOAT, [1, 2]) for i in range(count + 1)]
    graph = helper.make_graph(nodes, "chain", values[:1], values[-1:], constants, value_info=values[1:-1])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inputs, outputs = (InputSpec("t0", (1, 2)),), (OutputSpec(f"t{count}", (1, 2)),)
    return Model(proto.SerializeToString(), LayerTags(), inputs, outputs, 17)


def test_parts_compute_what_the_whole_does_and_the_network_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 40
    model = chain(count)
    graph = GraphView.of(model)
    read, read_model = 0, Model.proto

    def counted(self: Model) -> onnx.ModelProto:
        nonlocal read
        read += self is model
        return read_model(self)

    monkeypatch.setattr(Model, "proto", counted)
    values = np.array([[0.5, -3.0]], np.float32)
    given = values
    for node in graph.nodes:
        part = subgraph(graph, [node], [node.input(0)], [node.output])
        proto = onnx.load_model_from_string(part.onnx_bytes)
        assert [tensor.name for tensor in proto.graph.initializer] == [node.input(1)]
        given = FloatSession(part).run({node.input(0): given})[node.output]
    assert read <= 1
    whole = onnxruntime.InferenceSession(model.onnx_bytes, providers=["CPUExecutionProvider"])
    assert np.array_equal(given, whole.run(None, {"t0": values})[0])
