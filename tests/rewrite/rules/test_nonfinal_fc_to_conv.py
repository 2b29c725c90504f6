"""nonfinal_fc_to_conv: fully connected layers become convolutions, but for the last one."""

from __future__ import annotations

import pytest

from nnkit.rewrite import restructure
from nnkit.rewrite.rules.nonfinal_fc_to_conv import RULE as NONFINAL


def two_layers(graphs, tail="none"):
    net = graphs.Net(x=(1, 4, 6, 6))
    hidden = net.op("Gemm", net.op("Flatten", "x"), net.normal(144, 10), net.normal(10), name="hidden")
    y = net.op("MatMul", net.op("Relu", hidden), net.normal(10, 5), name="last")
    if tail == "softmax":
        y = net.op("Softmax", net.op("Reshape", y, net.ints(1, 5)), axis=1)
    if tail == "sigmoid":
        y = net.op("Sigmoid", y)
    return net, y


@pytest.mark.parametrize(("tail", "stays"), [("none", True), ("softmax", True), ("sigmoid", False)])
def test_only_what_softmax_may_follow_stays_fully_connected(graphs, tail, stays):
    net, y = two_layers(graphs, tail)
    model = net.model(y, hp=["hidden"])
    after, log = restructure(model, [NONFINAL])
    graphs.assert_equal(model, after)
    ops = graphs.ops(after)
    assert ops.count("Conv") == (1 if stays else 2)
    assert ops.count("MatMul") == (1 if stays else 0)
    reasons = [declined.reason for declined in log.of("nonfinal_fc_to_conv").declined]
    assert reasons == (["it is the last layer, which only softmax may follow: it stays fully connected"] * stays)
    conv = graphs.node(after, "Conv")
    assert conv.name == "hidden"
    assert after.tags.of(conv.output[0]).hp


def test_a_layer_with_two_heads_is_final_only_if_both_end(graphs):
    net = graphs.Net(x=(1, 8))
    trunk = net.op("Gemm", "x", net.normal(8, 6), name="trunk")
    model = net.model(net.op("Softmax", trunk), net.op("Tanh", trunk))
    after, _ = restructure(model, [NONFINAL])
    assert "Conv" in graphs.ops(after)
