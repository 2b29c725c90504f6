"""fold_scale and add_constant_to_bias, and the last resort batch_norm_to_conv."""

from __future__ import annotations

import numpy as np
import pytest

SCALE, BIAS, LAST = "fold_scale", "add_constant_to_bias", "batch_norm_to_conv"
SHAPES = [(), (1,), (1, 6, 1, 1), (6, 1, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("op", "rule"), [("Mul", SCALE), ("Div", SCALE), ("Add", BIAS), ("Sub", BIAS)])
def test_after_a_convolution(graphs, op, rule, shape):
    net = graphs.Net(x=(1, 4, 8, 8))
    conv = net.conv("x", (6, 4, 3, 3), pads=[1] * 4)
    after, _ = graphs.apply(net.model(net.op(op, conv, net.normal(*shape))), rule)
    assert graphs.ops(after) == ["Conv"]


@pytest.mark.parametrize(("op", "rule"), [("Mul", SCALE), ("Add", BIAS), ("Sub", BIAS)])
def test_the_constant_may_be_on_the_left(graphs, op, rule):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op(op, net.normal(6, 1, 1), net.conv("x", (6, 4, 3, 3), pads=[1] * 4))
    after, _ = graphs.apply(net.model(value), rule)
    assert graphs.ops(after) == ["Conv"]


def test_a_constant_divided_by_a_value_is_not_a_site(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op("Div", net.const(2.0), net.op("Exp", net.conv("x", (6, 4, 1, 1))))
    after, log = graphs.apply(net.model(value), SCALE, LAST)
    assert "Div" in graphs.ops(after)
    assert log.of(SCALE).declined == ()


def test_a_full_map_that_is_constant_within_channels_counts(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    full = np.repeat(np.arange(6.0), 64).reshape(1, 6, 8, 8)
    after, _ = graphs.apply(net.model(net.op("Add", net.conv("x", (6, 4, 1, 1)), net.const(full))), BIAS)
    assert graphs.ops(after) == ["Conv"]


def test_matmul_and_add(graphs):
    net = graphs.Net(x=(1, 5))
    value = net.op("Add", net.op("MatMul", "x", net.normal(5, 6), name="fc"), net.normal(6), name="bias")
    after, log = graphs.apply(net.model(value, hp=["bias"]), BIAS)
    assert graphs.ops(after) == ["Gemm"]
    assert log.of(BIAS).fired == ("fc + bias",)
    assert after.tags.of("bias_v").origins == ("fc", "bias")


def test_scale_before_a_padding_convolution(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.conv(net.op("Mul", "x", net.normal(4, 1, 1)), (6, 4, 3, 3), pads=[1] * 4)
    after, _ = graphs.apply(net.model(value), SCALE)
    assert graphs.ops(after) == ["Conv"]


def test_scale_before_a_transposed_convolution(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op("ConvTranspose", net.op("Mul", "x", net.normal(4, 1, 1)), net.normal(4, 3, 3, 3), group=2)
    after, _ = graphs.apply(net.model(value), SCALE)
    assert graphs.ops(after) == ["ConvTranspose"]


def test_declines_with_a_constant_that_differs_within_a_channel(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    scaled = net.op("Mul", net.conv("x", (6, 4, 1, 1)), net.normal(8))
    shifted = net.op("Add", net.conv("x", (6, 4, 1, 1)), net.normal(1, 1, 8, 8))
    after, log = graphs.apply(net.model(scaled, shifted), SCALE, BIAS, LAST)
    for rule in (SCALE, BIAS, LAST):
        assert {d.reason for d in log.of(rule).declined} == {"its constant differs within a channel"}
    assert sorted(graphs.ops(after)) == ["Add", "Conv", "Conv", "Mul"]


def test_declines_with_broadcasting_and_division_by_zero(graphs):
    net = graphs.Net(x=(1, 4, 1, 1))
    wider = net.op("Add", net.conv("x", (6, 4, 1, 1)), net.const(np.zeros((1, 6, 3, 3))))
    zero = net.op("Div", net.op("Relu", "x"), net.const([[[1.0]], [[0.0]], [[1.0]], [[1.0]]]))
    model = net.model(wider, net.conv(zero, (2, 4, 1, 1)))
    from nnkit.rewrite import available_rules, restructure

    _, log = restructure(model, [available_rules()[name] for name in (SCALE, BIAS)], check_inputs=[])
    assert "widens the result" in log.of(BIAS).declined[0].reason
    assert "divides by zero" in log.of(SCALE).declined[0].reason


@pytest.mark.parametrize("op", ["Mul", "Div", "Add", "Sub", "BatchNormalization"])
@pytest.mark.parametrize("rank", [2, 4])
def test_last_resort(graphs, op, rank):
    net = graphs.Net(x=(1, 4) if rank == 2 else (1, 4, 5, 5))
    value = net.op("Relu", "x")
    if op == "BatchNormalization":
        value = net.batch_norm(value, 4, name="a")
    else:
        value = net.op(op, value, net.normal(*((4,) if rank == 2 else (4, 1, 1))), name="a")
    model = net.model(net.op("Relu", value), hp=["a"], cpu=["a"])
    after, _ = graphs.apply(model, LAST)
    conv = graphs.node(after, "Conv")
    assert conv.name == "a"
    assert graphs.attribute(conv, "group") == 4
    tags = after.tags.of(conv.output[0])
    assert tags.hp
    assert tags.cpu
    assert set(graphs.ops(after)) <= {"Relu", "Conv", "Reshape"}


def test_last_resort_declines_for_other_ranks(graphs):
    net = graphs.Net(x=(1, 4, 5))
    after, log = graphs.apply(net.model(net.op("Mul", net.op("Relu", "x"), net.const(2.0))), LAST)
    assert graphs.ops(after) == ["Relu", "Mul"]
    assert "neither [1, C, H, W] nor [1, C]" in log.of(LAST).declined[0].reason


@pytest.mark.parametrize(("rule", "op"), [(SCALE, "Mul"), (BIAS, "Add")])
def test_cpu_blocks_folding(graphs, rule, op):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op(op, net.conv("x", (6, 4, 1, 1)), net.const(2.0), name="a_cpu")
    after, log = graphs.apply(net.model(value, cpu=["a_cpu"]), rule)
    assert graphs.ops(after) == ["Conv", op]
    assert "`_cpu`" in log.of(rule).declined[0].reason
