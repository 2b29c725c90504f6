"""add_constant_to_bias: additions and subtractions of constants go into the bias of the layer next to them."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "add_constant_to_bias"


@pytest.mark.parametrize("shape", [(), (1,), (1, 6, 1, 1), (6, 1, 1)])
@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_after_a_convolution(graphs, op, shape):
    net = graphs.Net(x=(1, 4, 8, 8))
    conv = net.conv("x", (6, 4, 3, 3), pads=[1] * 4)
    after, _ = graphs.apply(net.model(net.op(op, conv, net.normal(*shape))), RULE)
    assert graphs.ops(after) == ["Conv"]


@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_the_constant_may_be_on_the_left(graphs, op):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op(op, net.normal(6, 1, 1), net.conv("x", (6, 4, 3, 3), pads=[1] * 4))
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Conv"]


def test_a_full_map_that_is_constant_within_channels_counts(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    full = np.repeat(np.arange(6.0), 64).reshape(1, 6, 8, 8)
    after, _ = graphs.apply(net.model(net.op("Add", net.conv("x", (6, 4, 1, 1)), net.const(full))), RULE)
    assert graphs.ops(after) == ["Conv"]


def test_matmul_and_add(graphs):
    net = graphs.Net(x=(1, 5))
    value = net.op("Add", net.op("MatMul", "x", net.normal(5, 6), name="fc"), net.normal(6), name="bias")
    after, log = graphs.apply(net.model(value, hp=["bias"]), RULE)
    assert graphs.ops(after) == ["Gemm"]
    assert log.of(RULE).fired == ("fc + bias",)
    assert after.tags.of("bias_v").origins == ("fc", "bias")


def test_declines_with_a_constant_that_differs_within_a_channel(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op("Add", net.conv("x", (6, 4, 1, 1)), net.normal(1, 1, 8, 8))
    after, log = graphs.apply(net.model(value), RULE)
    assert {d.reason for d in log.of(RULE).declined} == {"its constant differs within a channel"}
    assert graphs.ops(after) == ["Conv", "Add"]


def test_declines_with_broadcasting(graphs):
    net = graphs.Net(x=(1, 4, 1, 1))
    wider = net.op("Add", net.conv("x", (6, 4, 1, 1)), net.const(np.zeros((1, 6, 3, 3))))
    _, log = graphs.apply(net.model(wider), RULE)
    assert "widens the result" in log.of(RULE).declined[0].reason


def test_cpu_blocks_folding(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op("Add", net.conv("x", (6, 4, 1, 1)), net.const(2.0), name="a_cpu")
    after, log = graphs.apply(net.model(value, cpu=["a_cpu"]), RULE)
    assert graphs.ops(after) == ["Conv", "Add"]
    assert "`_cpu`" in log.of(RULE).declined[0].reason
