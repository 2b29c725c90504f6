"""The graph view: nodes, shapes and constants of small networks, known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from one_node import model_of, view_of
from onnx import helper, numpy_helper

from nnkit.graph.metadata import FUSE_INTO
from nnkit.graph.refusal import Refusal, Refused, refusal_error
from nnkit.graph.view import GraphView, Node

PLANE = (1, 2, 4, 4)


def test_attributes_are_python_values_with_texts_as_str() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 3], auto_pad="SAME_UPPER", ceil_mode=1)
    (read,) = view_of([node], {"x": PLANE}).nodes
    assert (read.ints("kernel_shape"), read.text("auto_pad", ""), read.integer("ceil_mode", 0)) == (
        (2, 3),
        "SAME_UPPER",
        1,
    )
    assert (read.ints("pads", (7,)), read.text("none", "n"), read.number("none", 0.5)) == ((7,), "n", 0.5)
    assert read.name == "y"  # nodes without a name go by their first output's


def test_the_default_domain_has_one_spelling() -> None:
    relu = Node.of(helper.make_node("Relu", ["x"], ["h"], domain="ai.onnx"))
    assert (relu.domain, relu.is_op("Relu", "Clip"), relu.is_op("Clip")) == ("", True, False)


def test_shapes_of_custom_operators_are_inferred() -> None:
    node = helper.make_node("PassThrough", ["x"], ["y"], domain="ai.nnkit", block_height=2, block_width=2)
    view = view_of([node], {"x": PLANE})
    assert view.shape("y") == (1, 8, 2, 2)
    assert not view.nodes[0].is_op("PassThrough")


def test_constant_nodes_are_constants_unless_they_are_outputs() -> None:
    two, three = (numpy_helper.from_array(np.full((1,), number, np.float32)) for number in (2, 3))
    nodes = [
        helper.make_node("Constant", [], ["two"], value=two),
        helper.make_node("Mul", ["x", "two"], ["y"]),
        helper.make_node("Constant", [], ["three"], value=three),
    ]
    view = view_of(nodes, {"x": PLANE}, outputs=("y", "three"))
    assert [(node.op_type, node.index) for node in view.nodes] == [("Mul", 1), ("Constant", 2)]
    assert view.constant("two") is not None
    assert view.shape("two") == (1,)
    assert view.data_inputs(view.nodes[0]) == ("x",)
    assert view.constant("x") is None
    assert view.constant("") is None


def test_constants_are_read_only() -> None:
    view = view_of([helper.make_node("Add", ["x", "c"], ["y"])], {"x": PLANE}, {"c": np.ones(1, np.float32)})
    array = view.constants["c"]
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 2
    assert view.constant("c") is array  # converted once


def test_producers_consumers_and_counts() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Add", ["a", "a"], ["b"], name="twice"),
        helper.make_node("Mul", ["b", "a"], ["y"], name="again"),
    ]
    view = view_of(nodes, {"x": PLANE})
    assert view.producer("x") is None
    assert view.producers["a"].name == "first"
    assert [node.name for node in view.consumers["a"]] == ["twice", "again"]
    assert view.read_counts["a"] == 3
    assert "y" not in view.consumers
    assert (view.inputs, view.outputs) == (("x",), ("y",))


def test_marked_nodes_are_parts_of_the_node_that_takes_them_in() -> None:
    relu = helper.make_node("Relu", ["a"], ["y"], name="relu")
    relu.metadata_props.add(key=FUSE_INTO, value="a")
    view = view_of([helper.make_node("Neg", ["x"], ["a"], name="neg"), relu], {"x": PLANE})
    assert [node.name for node in view.absorbed_by(view.nodes[0])] == ["relu"]
    assert view.absorbed_by(view.nodes[1]) == ()


def test_an_unknown_shape_is_refused() -> None:
    model = model_of([helper.make_node("NonZero", ["x"], ["y"])], {"x": PLANE}, {}, ("y",))
    view = GraphView.of(model)
    with pytest.raises(Refused, match="the shape of value 'z' is not known before run time"):
        view.shape("z")


def test_all_refusals_are_one_error_a_line_each() -> None:
    refusals = [Refusal("a", "Conv", "its weights are not constant"), Refusal("b", "Erf", "no such op", "drop it")]
    error = refusal_error(refusals, "cannot run", "cut the network")
    assert error.reason.splitlines() == [
        "2 layers cannot run (1 Conv, 1 Erf):",
        "  a (Conv): its weights are not constant",
        "  b (Erf): no such op; drop it",
    ]
    assert error.remedy == "cut the network"


def test_refusals_alike_are_one_line_with_a_count() -> None:
    same = [Refusal(f"c{index}", "Conv", "its weights are computed", "fix it") for index in range(13)]
    named = [Refusal(f"d{index}", "Conv", f"'d{index}.weight' is computed") for index in range(5)]
    few = [Refusal(f"p{index}", "Pad", f"it pads by {index}") for index in range(2)]
    error = refusal_error([*same, *named, *few], "cannot run", "cut the network")
    assert error.reason.splitlines() == [
        "20 layers cannot run (18 Conv, 2 Pad):",
        "  c0, c1, c2, c3, c4, c5 and 7 more (Conv): its weights are computed; fix it",
        "  d0 and 4 more (Conv): 'd0.weight' is computed, and the like",
        "  p0 (Pad): it pads by 0",
        "  p1 (Pad): it pads by 1",
    ]
    assert len(error.layers) == 20
