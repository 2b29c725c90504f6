"""Nodes of ai.nnkit: attributes there and back, refusals, shapes within ONNX, and networks that contain them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from segment_networks import network

from nnkit.custom_ops import (
    CUSTOM_OPS,
    DOMAIN,
    Custom,
    CustomOp,
    DetectionOutput,
    Embedding,
    FixedNonMaxSuppression,
    Normalize,
    PassThrough,
    PriorBox,
    Proposal,
    PSROIPooling,
    Reorg,
    ROIPooling,
    WarpPerspective,
    infer_shapes,
    op_of,
    register_schemas,
)
from nnkit.errors import InternalError, ModelError
from nnkit.graph.onnx_runtime import FloatSession

OPS: list[CustomOp] = [
    Normalize(False, False, 1e-9),
    PriorBox((30.0,), (60.0,), (2.0, 3.0), False, True, (0.1,), 0, 300, 200, 0.0, 8.0, 4.0, 0.4),
    DetectionOutput(21, False, 3, 0.45, 400, 0.9, "CORNER_SIZE", True, 200, 0.01, True),
    Proposal(8, 8, (1.0,), (2.0, 4.0), 100, 10, 0.6, 4.0),
    ROIPooling(6, 7, 0.0625),
    PSROIPooling(21, 7, 0.0625),
    PassThrough(2, 3, 24),
    Reorg(3, True),
    WarpPerspective("forward", "nearest", "replicate", 0.5, 96, 112),
    Custom.of([(1, 3), (1, 4, 5)], "MyLayer", 'my_param { text: "x" }'),
    FixedNonMaxSuppression(20, 0.5, 0.25, True),
    Embedding(),
]


def node_of(op: CustomOp, **changes: Any) -> onnx.NodeProto:
    outputs = [f"y{i}" for i in range(len(op.outputs) if op.outputs is not None else 2)]
    node = op.node([f"x{i}" for i in range(len(op.inputs))], outputs, "layer")
    kept = [attribute for attribute in node.attribute if attribute.name not in changes]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.extend(helper.make_attribute(key, value) for key, value in changes.items() if value is not None)
    return node


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.op_type)
def test_attributes_survive(op: CustomOp) -> None:
    assert op_of(node_of(op)) == op


def test_every_operator_is_here() -> None:
    assert {op.op_type for op in OPS} == set(CUSTOM_OPS)


REFUSED = [
    (OPS[0], {"epsilon": 1.0}, "no attribute 'epsilon'"),
    (OPS[0], {"eps": 1}, "'eps' as float"),
    (OPS[1], {"min_size": None}, "lacks its attribute 'min_size'"),
    (OPS[1], {"max_size": [60.0, 70.0]}, "2 max_size for 1 min_size"),
    (OPS[2], {"code_type": "POLAR"}, "no code_type 'POLAR'"),
    (OPS[2], {"eta": 0.0}, "needs eta in"),
    (OPS[3], {"ratio": [0.0]}, "ratio values above 0"),
    (OPS[4], {"pooled_h": 0}, "above 0"),
    (OPS[8], {"border": "wrap"}, "no border 'wrap'"),
    (OPS[9], {"dims": [1, 3]}, "as many dims"),
]


@pytest.mark.parametrize(("op", "changes", "message"), REFUSED)
def test_wrong_attributes_name_the_layer(op: CustomOp, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        op_of(node_of(op, **changes))
    assert caught.value.where == "layer"
    assert caught.value.remedy


def test_unknown_operators_and_missing_inputs_are_refused() -> None:
    with pytest.raises(ModelError, match="no operator 'Nothing'"):
        op_of(helper.make_node("Nothing", ["x"], ["y"], domain=DOMAIN))
    with pytest.raises(ModelError, match="has 1 inputs, not x"):
        op_of(ROIPooling(2, 2).node(["x"], ["y"]))


def test_onnx_infers_and_checks_the_shapes() -> None:
    register_schemas()
    register_schemas()
    nodes = [PassThrough(2, 2).node(["x"], ["m"], "pass"), helper.make_node("Relu", ["m"], ["y"])]
    model = network(nodes, {"x": np.zeros((1, 3, 4, 6), np.float32)}, {})
    assert model.outputs[0].shape == (1, 12, 2, 3)
    onnx.checker.check_model(model.proto(), full_check=True)
    wrong = model.proto()
    wrong.graph.node[0].attribute[0].i = 3
    with pytest.raises(ModelError, match="block"):
        infer_shapes(wrong)


def mixed() -> Any:
    """Standard and custom nodes in turn: r = relu(x); p, q = custom of r; y = p + k; z = exp(custom of y)."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        PassThrough(2, 2).node(["r"], ["p"], "pass"),
        helper.make_node("Add", ["p", "k"], ["y"]),
        Normalize().node(["y", "scale"], ["n"], "norm"),
        helper.make_node("Exp", ["n"], ["z"]),
        Custom.of([(1, 5)], "Mystery").node(["z"], ["c"], "unknown"),
        helper.make_node("Neg", ["c"], ["last"]),
    ]
    constants = {"k": np.full((4, 1, 1), 0.5, np.float32), "scale": np.array([3.0], np.float32)}
    return network(nodes, {"x": np.zeros((1, 1, 4, 4), np.float32)}, constants, ["y", "z", "last"])


def test_a_network_with_custom_nodes_runs() -> None:
    x = np.random.default_rng(0).normal(size=(1, 1, 4, 4)).astype(np.float32)
    session = FloatSession(mixed(), fetch=["p", "z", "r", "k", "scale"])
    found = session.run({"x": x})
    relu = np.maximum(x, 0)
    passed = np.stack([relu[0, 0, i::2, j::2] for i in (0, 1) for j in (0, 1)])[None]
    y = passed + np.float32(0.5)
    np.testing.assert_array_equal(found["r"], relu)
    np.testing.assert_array_equal(found["p"], passed)
    np.testing.assert_allclose(found["z"], np.exp(3 * y / np.sqrt((y.astype(float) ** 2).sum())), rtol=1e-6)
    assert found["scale"] == 3
    np.testing.assert_array_equal(session.run({"x": x}, fetch=["y"])["y"], y)
    assert session.computed_types()["y"] == "tensor(float)"


def test_what_cannot_run_is_an_error_only_when_asked_for() -> None:
    x = {"x": np.ones((1, 1, 4, 4), np.float32)}
    session = FloatSession(mixed(), fetch=["z"])
    assert session.run(x)["z"].shape == (1, 4, 2, 2)
    with pytest.raises(ModelError, match="Mystery") as caught:
        session.run(x, fetch=["last"])
    assert caught.value.where == "unknown"
    with pytest.raises(InternalError, match="no such value"):
        session.run(x, fetch=["nothing"])


def test_no_operator_shares_its_name_with_one_of_onnx() -> None:
    """ONNX's reference evaluator, imported after the operators were registered, refuses a name of two domains."""
    command = "from nnkit.custom_ops import register_schemas; register_schemas(); import onnx.reference"
    subprocess.run([sys.executable, "-c", command], check=True)
