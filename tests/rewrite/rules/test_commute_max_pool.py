"""commute_max_pool: the activation comes before the max pooling."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "commute_max_pool"


@pytest.mark.parametrize(
    "build",
    [
        lambda net, v: net.op("Relu", v, name="act"),
        lambda net, v: net.op("Clip", v, net.const(-0.5), net.const(0.5), name="act"),
        lambda net, v: net.op("LeakyRelu", v, alpha=0.2, name="act"),
        lambda net, v: net.op("PRelu", v, net.const(np.linspace(0, 2, 4).reshape(4, 1, 1)), name="act"),
    ],
)
def test_activation_moves_before_the_max_pool(graphs, build):
    net = graphs.Net(x=(1, 3, 9, 8))
    conv = net.conv("x", (4, 3, 3, 3), name="conv")
    pool = net.op("MaxPool", conv, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], name="pool")
    model = net.model(build(net, pool), hp=["act"], cpu=["pool"])
    after, _ = graphs.apply(model, RULE)
    nodes = after.proto().graph.node
    assert [n.name for n in nodes] == ["conv", "act", "pool"]
    assert nodes[2].op_type == "MaxPool"
    assert after.tags.of(nodes[1].output[0]).hp
    assert after.tags.of("act_v").cpu


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda net, v: net.op("LeakyRelu", v, alpha=-0.2), "a slope is negative"),
        (lambda net, v: net.op("PRelu", v, net.normal(4, 1, 1)), "a slope is negative"),
        (lambda net, v: net.op("PRelu", v, "slope"), "its slopes are not constant"),
    ],
)
def test_commute_declines(graphs, build, text):
    net = graphs.Net(x=(1, 3, 9, 8), slope=(4, 1, 1))
    pool = net.op("MaxPool", net.conv("x", (4, 3, 3, 3)), kernel_shape=[2, 2])
    _, log = graphs.apply(net.model(build(net, pool), net.op("Relu", "slope")), RULE)
    assert text in log.of(RULE).declined[0].reason


def test_commute_declines_when_a_value_is_needed(graphs):
    for which in (0, 1):
        net = graphs.Net(x=(1, 3, 9, 8))
        conv = net.conv("x", (4, 3, 3, 3))
        pool = net.op("MaxPool", conv, kernel_shape=[2, 2])
        _, log = graphs.apply(net.model(net.op("Relu", pool), (conv, pool)[which]), RULE)
        assert "is also an output" in log.of(RULE).declined[0].reason


def test_an_average_pool_does_not_commute(graphs):
    net = graphs.Net(x=(1, 3, 9, 8))
    pool = net.op("AveragePool", net.conv("x", (4, 3, 3, 3)), kernel_shape=[2, 2])
    after, log = graphs.apply(net.model(net.op("Relu", pool)), RULE)
    assert graphs.ops(after) == ["Conv", "AveragePool", "Relu"]
    assert log.of(RULE).declined == ()
