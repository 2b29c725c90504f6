"""flatten_concat: nested concatenations along one axis become one."""

from __future__ import annotations

import pytest

RULE = "flatten_concat"


@pytest.mark.parametrize("axes", [(1, 1), (1, -3)])
def test_nested_concatenations(graphs, axes):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 3, 4, 4))
    inner = net.op("Concat", "y", "x", axis=axes[0], name="inner")
    outer = net.op("Concat", "x", inner, "y", axis=axes[1], name="outer")
    after, _ = graphs.apply(net.model(outer, hp=["inner"]), RULE)
    assert graphs.ops(after) == ["Concat"]
    assert list(graphs.node(after, "Concat").input) == ["x", "y", "x", "y"]
    assert after.tags.of("outer_v").hp


def test_nested_concatenations_decline(graphs):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 2, 4, 4))
    inner = net.op("Concat", "y", "x", axis=1, name="inner")
    outer = net.op("Concat", "x", inner, axis=1, name="outer")
    other_axis = net.op("Concat", inner, inner, axis=2)
    _, log = graphs.apply(net.model(outer, other_axis), RULE)
    assert "also read by" in log.of(RULE).declined[0].reason
    _, log = graphs.apply(net.model(outer, cpu=["inner"]), RULE)
    assert "`_cpu`" in log.of(RULE).declined[0].reason


def test_concatenations_along_different_axes_stay(graphs):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 2, 4, 4))
    inner = net.op("Concat", "y", "x", axis=1)
    after, log = graphs.apply(net.model(net.op("Concat", inner, net.op("Concat", "x", "y", axis=1), axis=2)), RULE)
    assert graphs.ops(after) == ["Concat", "Concat", "Concat"]
    assert log.of(RULE).declined == ()
