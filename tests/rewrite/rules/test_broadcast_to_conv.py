"""broadcast_to_conv: a computed value repeated along any axes, written out."""

from __future__ import annotations

import pytest

RULE = "broadcast_to_conv"
SHAPED = ["Reshape", "Resize", "Reshape"]
REPEATED = ["Reshape", "Conv", "Reshape"]
TURNED = ["Reshape", "Conv", "Reshape", "Transpose", "Reshape"]


@pytest.mark.parametrize(
    ("other", "made"),
    [
        ((1, 3, 1, 1), SHAPED),
        ((1, 3, 4, 1), SHAPED),
        ((1, 1, 1, 1), SHAPED),
        ((1, 1, 4, 5), REPEATED),
        ((5,), REPEATED),
        ((1, 3, 1, 5), TURNED),
        ((1, 1, 4, 1), TURNED),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_repeated_term(graphs, other, made, first):
    net = graphs.Net(x=(1, 3, 4, 5), y=other)
    term = net.op("Add", *(("y", "x") if first else ("x", "y")), name="a")
    after, _ = graphs.apply(net.model(term, hp=["a"]), RULE)
    assert graphs.ops(after) == [*made, "Add"]
    tagged = [node.op_type for node in after.proto().graph.node if after.tags.of(node.output[0]).hp]
    assert set(tagged) == {op for op in made if op != "Reshape"} | {"Add"}


def test_factors_along_rows_as_coordinate_attention_has_them(graphs):
    net = graphs.Net(x=(1, 3, 4, 5), y=(1, 3, 1, 5))
    after, _ = graphs.apply(net.model(net.op("Mul", "x", "y")), RULE)
    assert graphs.ops(after) == [*TURNED, "Mul"]


def test_both_are_repeated(graphs):
    net = graphs.Net(x=(1, 3, 4, 1), y=(1, 3, 1, 5))
    after, _ = graphs.apply(net.model(net.op("Mul", "x", "y")), RULE)
    assert graphs.ops(after) == [*SHAPED, *TURNED, "Mul"]


def test_rows_of_tokens(graphs):
    net = graphs.Net(x=(1, 6, 8), y=(1, 6, 1), z=(1, 1, 8))
    after, _ = graphs.apply(net.model(net.op("Add", net.op("Add", "x", "y"), "z")), RULE)
    assert graphs.ops(after) == [*SHAPED, "Add", *REPEATED, "Add"]


def test_axes_between_and_a_batch(graphs):
    net = graphs.Net(x=(2, 3, 4, 2, 3), y=(2, 1, 4, 1, 3))
    after, _ = graphs.apply(net.model(net.op("Add", "x", "y")), RULE)
    assert graphs.ops(after) == [*TURNED, "Add"]


def test_an_expand(graphs):
    net = graphs.Net(x=(1, 3, 1, 5))
    after, _ = graphs.apply(net.model(net.op("Relu", net.op("Expand", "x", net.ints(1, 3, 4, 5)))), RULE)
    assert graphs.ops(after) == [*TURNED, "Identity", "Relu"]


def test_factors_of_channels_and_equal_shapes_stay(graphs):
    net = graphs.Net(x=(1, 3, 4, 5), y=(1, 3, 1, 1), z=(1, 3, 4, 5))
    _, log = graphs.apply(net.model(net.op("Add", net.op("Mul", "y", "x"), "z")), RULE)
    assert log.of(RULE).fired == ()


def test_axes_of_one_in_front_are_a_reshape(graphs):
    """As in the Softmax of ONNX's own function body of Attention."""
    net = graphs.Net(x=(1, 3, 4, 5), y=(3, 4, 5))
    after, _ = graphs.apply(net.model(net.op("Add", "x", "y")), RULE)
    assert graphs.ops(after) == ["Reshape", "Add"]
