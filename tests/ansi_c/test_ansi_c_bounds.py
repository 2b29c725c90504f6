"""Bounds of float32 sums: worked by hand, and never exceeded by the difference of two orders of summation."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from segment_networks import network, normal

from nnkit.graph.onnx_runtime import FloatSession
from nnkit.graph.view import GraphView
from nnkit_ansi_c.bounds import EXPRESSION, UNIT, bound, gamma


def test_gamma_is_highams() -> None:
    assert gamma(1) == pytest.approx(UNIT, rel=1e-6)
    assert gamma(1 << 23) == pytest.approx(1.0)


def test_a_convolution_by_hand() -> None:
    """Three products of weights 1, 2, 3 with values up to 4, and a bias of 5: five terms that come to at most 29."""
    weights = {"w": np.array([1, 2, 3], np.float32).reshape(1, 3, 1, 1), "b": np.array([5], np.float32)}
    x = {"x": np.asarray(normal(1, 3, 4, 4))}
    graph = GraphView.of(network([helper.make_node("Conv", ["x", "w", "b"], ["y"])], x, weights))
    assert bound(graph, graph.nodes[0], {"x": 4.0}) == pytest.approx(2 * gamma(5) * (6 * 4 + 5))


@pytest.mark.parametrize("op_type", ["Relu", "MaxPool", "Transpose"])
def test_what_moves_or_compares_is_exact(op_type: str) -> None:
    attributes = {"kernel_shape": [2, 2]} if op_type == "MaxPool" else {}
    graph = GraphView.of(
        network([helper.make_node(op_type, ["x"], ["y"], **attributes)], {"x": np.asarray(normal(1, 2, 4, 4))}, {})
    )
    assert bound(graph, graph.nodes[0], {"x": 4.0}) == 0.0


def test_expressions_are_relative_to_the_largest_magnitude() -> None:
    graph = GraphView.of(network([helper.make_node("Exp", ["x"], ["y"])], {"x": np.asarray(normal(1, 2))}, {}))
    assert bound(graph, graph.nodes[0], {"x": 4.0, "y": 54.6}) == pytest.approx(EXPRESSION * 54.6)


@pytest.mark.parametrize(
    ("op_type", "shape", "attributes"),
    [
        ("Conv", (8, 16, 3, 3), {}),
        ("ConvTranspose", (16, 8, 3, 3), {}),
        ("Conv", (16, 4, 3, 3), {"group": 4}),
        ("MatMul", (12, 7), {}),
    ],
)
def test_it_holds_for_onnx_runtime_against_float64(
    op_type: str, shape: tuple[int, ...], attributes: dict[str, int]
) -> None:
    """An exact sum differs from a float32 one by half of the bound at most."""
    x, w = np.asarray(normal(1, 16, 9, 12)), np.asarray(normal(*shape, seed=2))
    node = helper.make_node(op_type, ["x", "w"], ["y"], **attributes)
    model = network([node], {"x": x}, {"w": w})
    allowed = bound(GraphView.of(model), GraphView.of(model).nodes[0], {"x": float(np.abs(x).max())})
    double = onnx_in_double(node, x, w)
    difference = np.abs(FloatSession(model).run({"x": x})["y"] - double).max()
    assert 0 < difference <= allowed / 2
    assert allowed < 1e-2


def onnx_in_double(node: helper.NodeProto, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """By ONNX's reference implementation."""
    from onnx import TensorProto
    from onnx.reference import ReferenceEvaluator

    values = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in ("x", "w", "y")]
    graph = helper.make_graph([node], "g", values[:2], values[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    (result,) = ReferenceEvaluator(model).run(None, {"x": x.astype(np.float64), "w": w.astype(np.float64)})
    return np.asarray(result)
