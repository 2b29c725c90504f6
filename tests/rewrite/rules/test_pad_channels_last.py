"""pad_channels_last: maps that lie channels last, padded to whole windows."""

from __future__ import annotations

import pytest

RULE = "pad_channels_last"
PADS = (0, 1, 0, 0, 0, 2, 3, 0)  # of N, H, W, C: before, then after


@pytest.mark.parametrize("value", [None, 1.5])
def test_by_itself(graphs, value):
    net = graphs.Net(x=(1, 5, 4, 3))
    fill = [] if value is None else [net.const(value)]
    after, _ = graphs.apply(net.model(net.op("Pad", "x", net.ints(*PADS), *fill, name="p"), hp=["p"]), RULE)
    assert graphs.ops(after) == ["Transpose", "Pad", "Transpose"]
    assert after.tags.of(graphs.node(after, "Pad").output[0]).hp


def test_behind_a_transpose(graphs):
    net = graphs.Net(x=(1, 3, 5, 4))
    turned = net.op("Transpose", "x", perm=[0, 2, 3, 1])
    after, _ = graphs.apply(net.model(net.op("Pad", turned, net.ints(*PADS))), RULE)
    assert graphs.ops(after) == ["Pad", "Transpose"]


def test_a_transpose_that_others_read_stays(graphs):
    net = graphs.Net(x=(1, 3, 5, 4))
    turned = net.op("Transpose", "x", perm=[0, 2, 3, 1])
    model = net.model(net.op("Pad", turned, net.ints(*PADS)), net.op("Relu", turned))
    after, _ = graphs.apply(model, RULE)
    assert sorted(graphs.ops(after)) == ["Pad", "Relu", "Transpose", "Transpose"]


def test_a_padded_last_axis_declines(graphs):
    net = graphs.Net(x=(1, 3, 5, 4))
    _, log = graphs.apply(net.model(net.op("Pad", "x", net.ints(0, 1, 1, 1, 0, 0, 0, 0))), RULE)
    assert "last axis" in log.of(RULE).declined[0].reason


def test_images_stay(graphs):
    net = graphs.Net(x=(1, 3, 4, 4))
    _, log = graphs.apply(net.model(net.op("Pad", "x", net.ints(0, 0, 1, 1, 0, 0, 0, 0))), RULE)
    assert log.of(RULE).fired == log.of(RULE).declined == ()
