"""global_pool: reductions over H and W, and windows of the whole map, as one pooling."""

from __future__ import annotations

import pytest

RULE = "global_pool"


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("axes", [(2, 3), (-1, -2), (3, 2)])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("op", "result"), [("ReduceMean", "GlobalAveragePool"), ("ReduceMax", "MaxPool")])
def test_reductions_over_h_and_w(graphs, opset, axes, keepdims, op, result):
    net = graphs.Net(opset=opset, x=(1, 5, 6, 7))
    if opset == 17:
        value = net.op(op, "x", axes=list(axes), keepdims=keepdims, name="mean")
    else:
        value = net.op(op, "x", net.ints(*axes), keepdims=keepdims, name="mean")
    after, _ = graphs.apply(net.model(value, hp=["mean"], cpu=["mean"]), RULE)
    assert graphs.ops(after) == ([result] if keepdims else [result, "Reshape"])
    pooled = graphs.node(after, result)
    assert pooled.name == "mean"
    assert after.tags.of(pooled.output[0]).hp
    assert after.tags.of(pooled.output[0]).cpu


def test_reductions_of_several_images_keep_their_number(graphs):
    net = graphs.Net(opset=18, x=(2, 5, 6, 7))
    after, _ = graphs.apply(net.model(net.op("ReduceMean", "x", net.ints(2, 3), keepdims=0, name="mean")), RULE)
    assert graphs.ops(after) == ["GlobalAveragePool", "Reshape"]


def test_whole_window_average_and_global_max(graphs):
    net = graphs.Net(x=(1, 5, 6, 7))
    outputs = [net.op("AveragePool", "x", kernel_shape=[6, 7]), net.op("GlobalMaxPool", "x")]
    after, _ = graphs.apply(net.model(*outputs), RULE)
    assert sorted(graphs.ops(after)) == ["GlobalAveragePool", "MaxPool"]


def test_the_stride_of_a_single_window_goes(graphs):
    """PyTorch writes adaptive max pooling to 1x1 with the stride of the whole map."""
    net = graphs.Net(x=(1, 5, 40, 40))
    outputs = [net.op("MaxPool", "x", kernel_shape=[40, 40], strides=strides) for strides in ([40, 40], [1, 1])]
    after, log = graphs.apply(net.model(*outputs), RULE)
    assert [list(node.attribute[1].ints) for node in after.proto().graph.node] == [[1, 1], [1, 1]]
    assert len(log.of(RULE).fired) == 1


@pytest.mark.parametrize(
    "attributes", [{"kernel_shape": [6, 6]}, {"kernel_shape": [6, 7], "pads": [0, 1, 0, 0], "strides": [2, 2]}]
)
def test_other_averages_stay(graphs, attributes):
    net = graphs.Net(x=(1, 5, 6, 7))
    after, log = graphs.apply(net.model(net.op("AveragePool", "x", **attributes)), RULE)
    assert graphs.ops(after) == ["AveragePool"]
    assert log.of(RULE).declined == ()


@pytest.mark.parametrize(
    ("axes", "text"), [((1,), "[1] instead of H and W"), ((1, 2, 3), "[1, 2, 3]"), (None, "[0, 1, 2, 3]")]
)
def test_global_pool_declines(graphs, axes, text):
    net = graphs.Net(x=(1, 5, 6, 7))
    value = net.op("ReduceMean", "x", **({} if axes is None else {"axes": list(axes)}))
    _, log = graphs.apply(net.model(value), RULE)
    assert text in log.of(RULE).declined[0].reason
