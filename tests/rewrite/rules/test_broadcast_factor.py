"""broadcast_factor: a factor repeated along the last axes is one number for each channel."""

from __future__ import annotations

import pytest

RULE = "broadcast_factor"


@pytest.mark.parametrize(("factor", "channels"), [((1, 3, 1), 3), ((1, 3, 4, 1), 12), ((1, 1, 1, 1), 1), ((1,), 1)])
@pytest.mark.parametrize("first", [True, False])
def test_factor(graphs, factor, channels, first):
    shape = (1, 3, 4) if len(factor) == 3 else (1, 3, 4, 5)
    net = graphs.Net(x=shape, y=factor)
    after, _ = graphs.apply(net.model(net.op("Mul", *(("y", "x") if first else ("x", "y")), name="m")), RULE)
    assert graphs.ops(after) == ["Reshape", "Reshape", "Mul", "Reshape"]
    reshape = next(node for node in after.proto().graph.node if node.op_type == "Reshape" and node.input[0] == "y")
    assert list(graphs.constant(after, reshape.input[1])) == [1, channels, 1, 1]


def test_expand_goes(graphs):
    net = graphs.Net(x=(1, 32), y=(1, 1))
    after, _ = graphs.apply(net.model(net.op("Mul", "x", net.op("Expand", "y", net.ints(1, 32)))), RULE)
    assert graphs.ops(after) == ["Reshape", "Reshape", "Mul", "Reshape"]


def test_factor_repeated_in_front_declines(graphs):
    net = graphs.Net(x=(1, 3, 4), y=(1, 1, 4))
    _, log = graphs.apply(net.model(net.op("Mul", "x", "y")), RULE)
    assert "repeated" in log.of(RULE).declined[0].reason


def test_batch_of_several_counts_as_an_axis(graphs):
    net = graphs.Net(x=(3, 2, 4), y=(3, 2, 1))
    after, _ = graphs.apply(net.model(net.op("Mul", "x", "y")), RULE)
    assert graphs.ops(after) == ["Reshape", "Reshape", "Mul", "Reshape"]
