"""pad_inside: one padded axis of what is no image, as the rows of one."""

from __future__ import annotations

import pytest

RULE = "pad_inside"


@pytest.mark.parametrize(("shape", "pads"), [((1, 6, 5), (0, 0, 0, 0, 1, 0)), ((3, 4), (0, 2, 0, 1))])
@pytest.mark.parametrize("value", [None, 1.5])
def test_one_axis(graphs, shape, pads, value):
    net = graphs.Net(x=shape)
    fill = [] if value is None else [net.const(value)]
    after, _ = graphs.apply(net.model(net.op("Pad", "x", net.ints(*pads), *fill, name="p"), hp=["p"]), RULE)
    assert graphs.ops(after) == ["Reshape", "Pad", "Reshape"]
    assert after.tags.of(graphs.node(after, "Pad").output[0]).hp


def test_several_axes_decline(graphs):
    net = graphs.Net(x=(1, 2, 3))
    _, log = graphs.apply(net.model(net.op("Pad", "x", net.ints(0, 1, 0, 0, 0, 1))), RULE)
    assert "several axes" in log.of(RULE).declined[0].reason


def test_images_stay(graphs):
    net = graphs.Net(x=(1, 3, 4, 4))
    _, log = graphs.apply(net.model(net.op("Pad", "x", net.ints(0, 0, 1, 1, 0, 0, 0, 0))), RULE)
    assert log.of(RULE).fired == log.of(RULE).declined == ()
