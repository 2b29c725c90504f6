"""fold_batch_norm: after and before each kind of layer; padding; every reason for declining; tags."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "fold_batch_norm"

LAYERS = {
    "conv": lambda net, v: net.conv(v, (6, 4, 3, 3), pads=[1, 0, 2, 1], strides=[2, 1], name="layer"),
    "conv without bias": lambda net, v: net.conv(v, (6, 4, 1, 1), bias=False, name="layer"),
    "grouped": lambda net, v: net.conv(v, (6, 2, 3, 3), group=2, name="layer"),
    "depthwise": lambda net, v: net.conv(v, (4, 1, 3, 3), group=4, pads=[1] * 4, name="layer"),
    "depthwise with multiplier": lambda net, v: net.conv(v, (8, 1, 3, 3), group=4, name="layer"),
    "dilated": lambda net, v: net.conv(v, (6, 4, 3, 3), dilations=[2, 2], name="layer"),
    "transposed": lambda net, v: net.op("ConvTranspose", v, net.normal(4, 5, 3, 3), strides=[2, 2], name="layer"),
    "grouped transposed": lambda net, v: net.op(
        "ConvTranspose", v, net.normal(4, 3, 2, 2), net.normal(6), group=2, name="layer"
    ),
}
OUTPUTS = {
    "conv": 6,
    "conv without bias": 6,
    "grouped": 6,
    "depthwise": 4,
    "depthwise with multiplier": 8,
    "dilated": 6,
}
OUTPUTS |= {"transposed": 5, "grouped transposed": 6}


@pytest.mark.parametrize("kind", LAYERS)
def test_after_a_layer(graphs, kind):
    net = graphs.Net(seed=3, x=(1, 4, 9, 8))
    value = net.batch_norm(LAYERS[kind](net, "x"), OUTPUTS[kind], name="bn")
    after, log = graphs.apply(net.model(net.op("Relu", value)), RULE)
    assert len(graphs.ops(after)) == 2
    assert log.of(RULE).fired == ("layer + bn",)
    assert next(n.name for n in after.proto().graph.node) == "layer"


@pytest.mark.parametrize(
    "attributes", [{}, {"transB": 1}, {"alpha": 0.5, "beta": 3.0}, {"transA": 1, "transB": 1, "alpha": -2.0}]
)
@pytest.mark.parametrize("bias_shape", [None, (6,), (1, 6), (1,), ()])
def test_after_gemm(graphs, attributes, bias_shape):
    net = graphs.Net(x=(5, 1) if "transA" in attributes else (1, 5))
    weight = net.normal(6, 5) if "transB" in attributes else net.normal(5, 6)
    inputs = [weight] + ([] if bias_shape is None else [net.normal(*bias_shape)])
    value = net.op("Gemm", "x", *inputs, name="layer", **attributes)
    after, _ = graphs.apply(net.model(net.batch_norm(value, 6, name="bn")), RULE)
    assert graphs.ops(after) == ["Gemm"]
    assert list(graphs.node(after, "Gemm").output) == ["bn_v"]


def test_after_matmul_which_becomes_a_gemm(graphs):
    net = graphs.Net(x=(1, 5))
    value = net.batch_norm(net.op("MatMul", "x", net.normal(5, 6)), 6)
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Gemm"]


@pytest.mark.parametrize("kind", ["conv without bias", "grouped", "depthwise with multiplier", "dilated"])
def test_before_a_layer_without_padding(graphs, kind):
    net = graphs.Net(seed=5, x=(1, 4, 9, 8))
    value = LAYERS[kind](net, net.batch_norm("x", 4, name="bn"))
    after, log = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Conv"]
    assert log.of(RULE).fired == ("bn + layer",)


def test_before_gemm(graphs):
    net = graphs.Net(x=(1, 5))
    value = net.op("Gemm", net.batch_norm("x", 5), net.normal(5, 6), net.normal(6), alpha=0.5)
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Gemm"]


def test_before_several_layers(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.batch_norm("x", 4, name="bn")
    one, two = net.conv(value, (3, 4, 1, 1), name="one"), net.conv(value, (2, 4, 3, 3), name="two")
    after, _ = graphs.apply(net.model(one, two, hp=["bn"]), RULE)
    assert graphs.ops(after) == ["Conv", "Conv"]
    assert after.tags.of("one_v").hp
    assert after.tags.of("two_v").hp
    assert after.tags.of("two_v").origins == ("two", "bn")


def _same_zero_batch_norm(net, value, channels, zero, name="bn"):
    """A batch norm with different scales per channel that maps `zero` to 0 in every channel."""
    scale = net.rng.uniform(0.5, 2, channels)
    constants = [net.const(scale), net.const(np.zeros(channels)), net.const(np.full(channels, zero))]
    return net.op("BatchNormalization", value, *constants, net.const(np.ones(channels)), name=name)


def test_before_a_padding_layer_with_one_value_uses_an_explicit_pad(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = _same_zero_batch_norm(net, "x", 4, 1.5)
    model = net.model(net.conv(value, (6, 4, 3, 3), pads=[1, 1, 1, 1], strides=[2, 2], name="layer"))
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Pad", "Conv"]
    pad = graphs.node(after, "Pad")
    assert graphs.constant(after, pad.input[2]) == 1.5
    # 8 rows, stride 2, 3x3 with one row of padding at the top: the row at the bottom is never read
    assert graphs.constant(after, pad.input[1]).tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert graphs.attribute(graphs.node(after, "Conv"), "pads") == [0, 0, 0, 0]
    assert graphs.marks(after) == {pad.name: "layer_v"}


def test_before_a_padding_layer_without_shift_needs_no_pad(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = _same_zero_batch_norm(net, "x", 4, 0.0)
    after, _ = graphs.apply(net.model(net.conv(value, (6, 4, 3, 3), pads=[1, 1, 1, 1])), RULE)
    assert graphs.ops(after) == ["Conv"]


def test_padding_that_a_stride_leaves_unread_does_not_matter(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.conv(net.batch_norm("x", 4), (6, 4, 2, 2), pads=[0, 0, 1, 1], strides=[2, 2])
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Conv"]


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_auto_pad_counts_as_padding(graphs, auto_pad):
    """8 rows, 3x3, stride 2: one row of padding, at the bottom (SAME_UPPER) or at the top (SAME_LOWER)."""
    net = graphs.Net(x=(1, 4, 8, 8))
    value = _same_zero_batch_norm(net, "x", 4, -2.0)
    after, _ = graphs.apply(net.model(net.conv(value, (6, 4, 3, 3), auto_pad=auto_pad, strides=[2, 2])), RULE)
    assert graphs.ops(after) == ["Pad", "Conv"]
    assert graphs.attribute(graphs.node(after, "Conv"), "auto_pad") is None


def _declined(graphs, model):
    after, log = graphs.apply(model, RULE)
    assert "BatchNormalization" in graphs.ops(after)
    (declined,) = log.of(RULE).declined
    return declined.reason


def test_declines_before_padding_with_different_values(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    reason = _declined(graphs, net.model(net.conv(net.batch_norm("x", 4), (6, 4, 3, 3), pads=[1] * 4, name="layer")))
    assert "'layer' pads with zeros, which stand for a different input value in each channel" in reason


def test_declines_before_a_transposed_convolution_with_shift(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op("ConvTranspose", net.batch_norm("x", 4), net.normal(4, 5, 3, 3), name="up")
    assert "'up' is a transposed convolution" in _declined(graphs, net.model(value))


def test_declines_when_the_layers_result_is_needed(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    conv = net.conv("x", (4, 4, 1, 1), name="layer")
    reason = _declined(graphs, net.model(net.op("Relu", net.batch_norm(conv, 4)), conv))
    assert "does not follow a layer that it could be folded into alone" in reason


def test_declines_without_a_layer_on_either_side(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.op("Relu", net.batch_norm(net.op("Add", "x", "x"), 4), name="r")
    assert "'r' (Relu), which reads it, is not a convolution" in _declined(graphs, net.model(value))


def test_declines_when_its_result_is_an_output(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.batch_norm("x", 4, name="bn")
    assert "'bn_v' is an output" in _declined(graphs, net.model(value, net.conv(value, (2, 4, 1, 1))))


def test_declines_with_computed_weights(graphs):
    net = graphs.Net(x=(1, 4, 8, 8), w=(4, 4, 1, 1))
    value = net.batch_norm(net.op("Conv", "x", "w", name="layer"), 4)
    assert "'layer' cannot take it over: its weights are not constant" in _declined(graphs, net.model(value))


def test_declines_with_computed_parameters(graphs):
    net = graphs.Net(x=(1, 4, 8, 8), mean=(4,))
    conv = net.conv("x", (4, 4, 1, 1))
    ones = net.const(np.ones(4))
    value = net.op("BatchNormalization", conv, ones, ones, "mean", ones)
    assert "its parameters are not constant" in _declined(graphs, net.model(value))


def test_hp_moves_and_origins_merge(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.batch_norm(net.conv("x", (4, 4, 1, 1), name="c"), 4, name="bn_hp")
    after, _ = graphs.apply(net.model(net.op("Relu", value), hp=["bn_hp"]), RULE)
    assert after.tags.of("bn_hp_v").hp
    assert after.tags.of("bn_hp_v").origins == ("c", "bn_hp")
    assert set(after.tags.values) == {"bn_hp_v"}


@pytest.mark.parametrize("layer", ["c", "bn"])
def test_cpu_blocks(graphs, layer):
    net = graphs.Net(x=(1, 4, 8, 8))
    value = net.batch_norm(net.conv("x", (4, 4, 1, 1), name="c"), 4, name="bn")
    assert f"'{layer}' is tagged `_cpu`" in _declined(graphs, net.model(value, cpu=[layer]))


def test_shared_weights_are_not_changed_for_others(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    weight = net.normal(4, 4, 3, 3)
    one, two = net.op("Conv", "x", weight), net.op("Conv", "x", weight)
    after, _ = graphs.apply(net.model(net.batch_norm(one, 4), two), RULE)
    assert graphs.ops(after) == ["Conv", "Conv"]
