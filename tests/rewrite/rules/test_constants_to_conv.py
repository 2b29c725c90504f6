"""constants_to_conv: arithmetic with constants of any shape is one depthwise convolution."""

from __future__ import annotations

import pytest

RULE = "constants_to_conv"


@pytest.mark.parametrize(
    ("shape", "constant", "channels"),
    [
        ((1, 6, 5), (5,), 30),
        ((1, 6, 5), (1, 6, 1), 6),
        ((1, 2, 3, 4, 5), (3, 1, 1), 6),
        ((1, 2, 3, 4), (1, 1, 3, 4), 24),
        ((1, 7), (), 1),
    ],
)
def test_chain_is_one_convolution(graphs, shape, constant, channels):
    net = graphs.Net(x=shape)
    value = net.op("Mul", "x", net.normal(*constant), name="m")
    value = net.op("Sub", net.normal(*constant), value, name="s")
    value = net.op("Div", value, net.const(2.5), name="d")
    after, _ = graphs.apply(net.model(net.op("Add", value, net.normal(*constant), name="a"), hp=["m"]), RULE)
    assert graphs.ops(after) == ["Reshape", "Conv", "Reshape"]
    conv = graphs.node(after, "Conv")
    assert graphs.attribute(conv, "group") == channels
    assert after.tags.of(conv.output[0]).hp


def test_widening_declines(graphs):
    net = graphs.Net(x=(1, 1, 5))
    _, log = graphs.apply(net.model(net.op("Mul", "x", net.normal(1, 6, 5))), RULE)
    assert "widens" in log.of(RULE).declined[0].reason
