"""merge_subsampling: strides of a 1x1 window go into the 1x1 window behind it."""

from __future__ import annotations

import pytest

RULE = "merge_subsampling"


@pytest.mark.parametrize("hw", [(16, 16), (13, 11)])
@pytest.mark.parametrize("second", ["Conv", "MaxPool", "AveragePool"])
def test_subsampling_merges(graphs, hw, second):
    net = graphs.Net(x=(1, 4, *hw))
    value = net.op("MaxPool", "x", kernel_shape=[1, 1], strides=[2, 3], name="first")
    attributes = {"kernel_shape": [1, 1], "strides": [2, 1], "name": "second"}
    value = (
        net.conv(value, (6, 2, 1, 1), group=2, **attributes)
        if second == "Conv"
        else net.op(second, value, **attributes)
    )
    after, _ = graphs.apply(net.model(value, hp=["first"]), RULE)
    assert graphs.ops(after) == [second]
    assert graphs.attribute(after.proto().graph.node[0], "strides") == [4, 3]
    assert after.tags.of("second_v").hp


def test_subsampling_declines(graphs):
    net = graphs.Net(x=(1, 4, 16, 16))
    first = net.op("MaxPool", "x", kernel_shape=[1, 1], strides=[2, 2], name="first")
    conv = net.conv(first, (6, 4, 1, 1))
    after, log = graphs.apply(net.model(conv, net.op("Relu", first)), RULE)
    assert "also read by" in log.of(RULE).declined[0].reason
    after, log = graphs.apply(net.model(conv, cpu=["first"]), RULE)
    assert "`_cpu`" in log.of(RULE).declined[0].reason
    assert "MaxPool" in graphs.ops(after)


@pytest.mark.parametrize("attributes", [{"kernel_shape": [3, 3]}, {"kernel_shape": [1, 1], "pads": [1, 1, 1, 1]}])
def test_windows_and_padding_do_not_merge(graphs, attributes):
    net = graphs.Net(x=(1, 4, 16, 16))
    value = net.op("MaxPool", "x", kernel_shape=[1, 1], strides=[2, 2])
    model = net.model(net.conv(value, (6, 4, *attributes.pop("kernel_shape")), **attributes))
    after, log = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["MaxPool", "Conv"]
    assert log.of(RULE).declined == ()
