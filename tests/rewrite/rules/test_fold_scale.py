"""fold_scale: multiplications and divisions by constants go into the layer next to them."""

from __future__ import annotations

import pytest

from nnkit.rewrite import available_rules, restructure

RULE = "fold_scale"


@pytest.mark.parametrize("shape", [(), (1,), (1, 6, 1, 1), (6, 1, 1)])
@pytest.mark.parametrize("op", ["Mul", "Div"])
def test_after_a_convolution(graphs, op, shape):
    net = graphs.Net(x=(1, 4, 8, 8))
    conv = net.conv("x", (6, 4, 3, 3), pads=[1] * 4)
    after, _ = graphs.apply(net.model(net.op(op, conv, net.normal(*shape))), RULE)
    assert graphs.ops(after) == ["Conv"]


def test_the_constant_may_be_on_the_left(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op("Mul", net.normal(6, 1, 1), net.conv("x", (6, 4, 3, 3), pads=[1] * 4))
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Conv"]


@pytest.mark.parametrize("rules", [[RULE], [RULE, "batch_norm_to_conv"]])
def test_a_constant_divided_by_a_value_is_not_a_site(graphs, rules):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op("Div", net.const(2.0), net.op("Exp", net.conv("x", (6, 4, 1, 1))))
    after, log = graphs.apply(net.model(value), *rules)
    assert "Div" in graphs.ops(after)
    assert log.of(RULE).declined == ()


def test_before_a_padding_convolution(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.conv(net.op("Mul", "x", net.normal(4, 1, 1)), (6, 4, 3, 3), pads=[1] * 4)
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Conv"]


def test_before_a_transposed_convolution(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op("ConvTranspose", net.op("Mul", "x", net.normal(4, 1, 1)), net.normal(4, 3, 3, 3), group=2)
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["ConvTranspose"]


def test_declines_with_a_constant_that_differs_within_a_channel(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    after, log = graphs.apply(net.model(net.op("Mul", net.conv("x", (6, 4, 1, 1)), net.normal(8))), RULE)
    assert {d.reason for d in log.of(RULE).declined} == {"its constant differs within a channel"}
    assert graphs.ops(after) == ["Conv", "Mul"]


def test_declines_with_division_by_zero(graphs):
    net = graphs.Net(x=(1, 4, 1, 1))
    zero = net.op("Div", net.op("Relu", "x"), net.const([[[1.0]], [[0.0]], [[1.0]], [[1.0]]]))
    _, log = restructure(net.model(net.conv(zero, (2, 4, 1, 1))), [available_rules()[RULE]], check_inputs=[])
    assert "divides by zero" in log.of(RULE).declined[0].reason


def test_cpu_blocks_folding(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op("Mul", net.conv("x", (6, 4, 1, 1)), net.const(2.0), name="a_cpu")
    after, log = graphs.apply(net.model(value, cpu=["a_cpu"]), RULE)
    assert graphs.ops(after) == ["Conv", "Mul"]
    assert "`_cpu`" in log.of(RULE).declined[0].reason
