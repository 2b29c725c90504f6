"""concat_along_channels: joining along another axis, brought to the channels."""

from __future__ import annotations

import pytest

RULE = "concat_along_channels"


@pytest.mark.parametrize("axis", [2, 3, -1])
def test_axis_is_brought_forward(graphs, axis):
    net = graphs.Net(x=(1, 3, 4, 5), y=(1, 3, 4, 5))
    after, _ = graphs.apply(net.model(net.op("Concat", "x", "y", axis=axis, name="c"), hp=["c"]), RULE)
    assert graphs.ops(after) == ["Transpose", "Transpose", "Concat", "Transpose"]
    assert graphs.attribute(graphs.node(after, "Concat"), "axis") == 1
    assert after.tags.of("c_v").hp


def test_leading_axes_of_length_one_need_no_transpose(graphs):
    net = graphs.Net(x=(1, 1, 4, 5), y=(1, 1, 2, 5))
    after, _ = graphs.apply(net.model(net.op("Concat", "x", "y", axis=2)), RULE)
    assert graphs.ops(after) == ["Reshape", "Reshape", "Concat", "Reshape"]


def test_constants_decline(graphs):
    net = graphs.Net(x=(1, 1, 4, 5))
    _, log = graphs.apply(net.model(net.op("Concat", "x", net.normal(1, 1, 2, 5), axis=2)), RULE)
    assert "constant" in log.of(RULE).declined[0].reason
