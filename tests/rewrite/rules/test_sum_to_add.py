"""sum_to_add: sums are written as additions of two values."""

from __future__ import annotations

import pytest

RULE = "sum_to_add"


@pytest.mark.parametrize("terms", [2, 3, 5])
def test_sum(graphs, terms):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 2, 4, 4))
    value = net.op("Sum", *(["x", "y"] * 3)[:terms], name="sum")
    after, _ = graphs.apply(net.model(value, hp=["sum"], cpu=["sum"]), RULE)
    assert graphs.ops(after) == ["Add"] * (terms - 1)
    tags = [after.tags.of(n.output[0]) for n in after.proto().graph.node]
    assert all(t.hp and t.cpu for t in tags)


def test_sum_declines_with_broadcasting(graphs):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 2, 1, 1))
    _, log = graphs.apply(net.model(net.op("Sum", "x", "y")), RULE)
    assert "do not all have the shape" in log.of(RULE).declined[0].reason
