"""lrn_to_layers: local response normalisation as a convolution and a power."""

from __future__ import annotations

import pytest

RULE = "lrn_to_layers"


@pytest.mark.parametrize("size", [1, 3, 5, 15])
def test_neighbouring_channels(graphs, size):
    net = graphs.Net(x=(1, 6, 4, 5))
    value = net.op("LRN", "x", size=size, alpha=0.3, beta=0.6, bias=1.5, name="n")
    after, _ = graphs.apply(net.model(value, hp=["n"]), RULE)
    assert graphs.ops(after) == ["Mul", "Conv", "Pow", "Mul"]
    assert after.tags.of(graphs.node(after, "Pow").output[0]).hp


def test_a_power_of_nothing_declines(graphs):
    net = graphs.Net(x=(1, 6, 4, 5))
    _, log = graphs.apply(net.model(net.op("LRN", "x", size=3, bias=0.0)), RULE)
    assert "its bias 0" in log.of(RULE).declined[0].reason
