"""repeat_by_conv: one map for all channels, as spatial attention has it."""

from __future__ import annotations

import pytest

RULE = "repeat_by_conv"


@pytest.mark.parametrize("op", ["Add", "Mul"])
@pytest.mark.parametrize("order", [("x", "y"), ("y", "x")])
def test_a_map_for_all_channels(graphs, op, order):
    net = graphs.Net(x=(1, 3, 4, 5), y=(1, 1, 4, 5))
    after, _ = graphs.apply(net.model(net.op(op, *order, name="m"), hp=["m"]), RULE)
    assert graphs.ops(after) == ["Conv", op]
    assert all(after.tags.of(node.output[0]).hp for node in after.proto().graph.node)


def test_tags_go_to_what_is_new_alone(graphs):
    """The layer whose result is added keeps its own precision."""
    net = graphs.Net(x=(1, 3, 4, 5), y=(1, 1, 4, 5))
    after, _ = graphs.apply(net.model(net.op("Add", net.op("Relu", "x", name="r"), "y", name="m"), hp=["m"]), RULE)
    assert {node.op_type: after.tags.of(node.output[0]).hp for node in after.proto().graph.node} == {
        "Relu": False,
        "Conv": True,
        "Add": True,
    }


def test_a_map_times_a_number_for_each_channel(graphs):
    net = graphs.Net(x=(1, 3, 1, 1), y=(1, 1, 4, 5))
    after, _ = graphs.apply(net.model(net.op("Mul", "x", "y")), RULE)
    assert graphs.ops(after) == ["Conv", "Mul"]
    other = graphs.Net(x=(1, 3, 1, 1), y=(1, 1, 4, 5))
    _, log = graphs.apply(other.model(other.op("Add", "x", "y")), RULE)
    assert log.of(RULE).fired == ()


@pytest.mark.parametrize("other", [(1, 3, 4, 5), (1, 3, 1, 1), (1, 1, 1, 5), (1, 1, 4, 1)])
def test_other_shapes_stay(graphs, other):
    net = graphs.Net(x=(1, 3, 4, 5), y=other)
    _, log = graphs.apply(net.model(net.op("Mul", "x", "y")), RULE)
    assert log.of(RULE).fired == ()
