"""floor_pool_to_conv: a pooling that rounds down as one of stride 1 and a convolution that picks."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.graph.onnx_runtime import FloatSession

RULE = "floor_pool_to_conv"


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("side", "kernel", "stride", "pad"),
    [((8, 8), 3, 2, 1), ((7, 9), 2, 2, 0), ((8, 11), 3, 3, 0), ((10, 8), 5, 4, 2)],
)
def test_gives_what_onnx_runtime_gives(graphs, op, side, kernel, stride, pad):
    net = graphs.Net(x=(1, 3, *side))
    window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    before = net.model(net.op(op, "x", name="p", **window), hp=["p"])
    after, log = graphs.apply(before, RULE)
    assert graphs.ops(after) == [op, "Conv"]
    assert log.of(RULE).fired == ("p",)
    assert all(after.tags.of(node.output[0]).hp for node in after.proto().graph.node)
    x = {"x": -5 + np.random.default_rng(3).normal(size=(1, 3, *side)).astype(np.float32)}  # padding would win
    found, expected = (FloatSession(model).run(x)["p_v"] for model in (after, before))
    np.testing.assert_allclose(found, expected, rtol=1e-6 if op == "AveragePool" else 0)  # sums in another order


@pytest.mark.parametrize(
    "window",
    [
        {"kernel_shape": [2, 2], "strides": [2, 2]},  # nothing is left over
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1] * 4},
    ],
)
def test_what_rounds_up_stays(graphs, window):
    net = graphs.Net(x=(1, 3, 8, 8))
    after, _ = graphs.apply(net.model(net.op("MaxPool", "x", **window)), RULE)
    assert graphs.ops(after) == ["MaxPool"]


def test_declines(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    stride = {"kernel_shape": [3, 3], "strides": [2, 2]}
    outputs = [
        net.op("MaxPool", "x", name="dilated", dilations=[2, 2], pads=[1] * 4, kernel_shape=[3, 3], strides=[2, 2]),
        net.op("MaxPool", "x", name="uneven", pads=[0, 1, 1, 0], **stride),
        net.op("MaxPool", "x", name="on_the_cpu", **stride),
    ]
    _, log = graphs.apply(net.model(*outputs, cpu=["on_the_cpu"]), RULE)
    reasons = {each.site: each.reason for each in log.of(RULE).declined}
    assert "dilated" in reasons["dilated"]
    assert "`_cpu`" in reasons["on_the_cpu"]
    assert set(reasons) <= {"dilated", "uneven", "on_the_cpu"}
