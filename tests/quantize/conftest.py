"""Small restructured models for the quantiser, and calibration by running them in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit.graph import InputSpec, LayerTags, Model, OutputSpec

MakeModel = Callable[..., Model]


def make_model(
    nodes: Sequence[onnx.NodeProto],
    constants: dict[str, np.ndarray[Any, Any]],
    inputs: dict[str, tuple[int, ...]],
    outputs: Sequence[str],
    tags: LayerTags | None = None,
) -> Model:
    """A Model whose shapes are inferred by ONNX."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    proto = onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in proto.graph.output}
    return Model(
        proto.SerializeToString(),
        tags or LayerTags(),
        tuple(InputSpec(n, s) for n, s in inputs.items()),
        tuple(OutputSpec(n, shapes[n]) for n in outputs),
        17,
    )


def mark(node: onnx.NodeProto, into: str) -> onnx.NodeProto:
    """Mark a node to run as part of the layer that makes `into`."""
    entry = node.metadata_props.add()
    entry.key, entry.value = "nnkit.fuse_into", into
    return node


def float_values(model: Model, feeds: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Every value of the model on one input, by ONNX Runtime."""
    import onnxruntime

    proto = model.proto()
    known = {o.name for o in proto.graph.output}
    for node in proto.graph.node:
        for name in node.output:
            if name not in known:
                proto.graph.output.append(onnx.ValueInfoProto(name=name))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return {**dict(zip(names, session.run(names, feeds), strict=True)), **feeds}


def stats_of(values: dict[str, np.ndarray[Any, Any]], digest: str = "") -> CalibrationStats:
    """Max ranges of the given values."""
    ranges = {}
    for name, v in values.items():
        low, high = float(v.min()), float(v.max())
        ranges[name] = ValueRange(low, high, low, high)
    return CalibrationStats(ranges, "max", 1, digest)


@pytest.fixture
def conv_relu() -> tuple[Model, dict[str, np.ndarray[Any, Any]]]:
    """conv 3x3 -> relu -> conv 1x1, with a feed."""
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], name="first", pads=[1, 1, 1, 1]),
        mark(helper.make_node("Relu", ["c1"], ["r1"], name="act"), "c1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["y"], name="second"),
    ]
    constants = {
        "w1": rng.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32),
        "b1": rng.normal(0, 0.3, 8).astype(np.float32),
        "w2": rng.normal(0, 0.3, (4, 8, 1, 1)).astype(np.float32),
        "b2": rng.normal(0, 0.3, 4).astype(np.float32),
    }
    model = make_model(nodes, constants, {"x": (1, 3, 12, 12)}, ["y"])
    return model, {"x": rng.normal(0, 1, (1, 3, 12, 12)).astype(np.float32)}
