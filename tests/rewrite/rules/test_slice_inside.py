"""slice_inside: a cut of a batch of several, or of many axes, as the cut of one axis inside."""

from __future__ import annotations

import pytest

RULE = "slice_inside"


@pytest.mark.parametrize(
    ("shape", "axis", "bounds"),
    [((3, 4, 5), 0, (1, 2, 1)), ((1, 2, 3, 2, 6, 2), 4, (5, -7, -2)), ((2, 6), 1, (0, 6, 2))],
)
def test_one_axis(graphs, shape, axis, bounds):
    net = graphs.Net(x=shape)
    start, end, step = bounds
    value = net.op("Slice", "x", net.ints(start), net.ints(end), net.ints(axis), net.ints(step), name="s")
    after, _ = graphs.apply(net.model(value, hp=["s"]), RULE)
    assert graphs.ops(after) == ["Reshape", "Slice", "Reshape"]
    assert after.tags.of(graphs.node(after, "Slice").output[0]).hp


def test_several_axes_decline(graphs):
    net = graphs.Net(x=(3, 4, 5))
    _, log = graphs.apply(net.model(net.op("Slice", "x", net.ints(0, 1), net.ints(2, 3), net.ints(0, 1))), RULE)
    assert "several axes" in log.of(RULE).declined[0].reason
