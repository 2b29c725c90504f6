"""fold_input_normalization: chains, padding through an explicit value, reasons for declining."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "fold_input_normalization"
MEANS = [123.7, 116.3, 103.5]
STDS = [58.4, 57.1, 57.4]


def _per_channel(net, values):
    return net.const(np.array(values).reshape(-1, 1, 1))


CHAINS = {
    "sub": lambda net: net.op("Sub", "image", net.const(127.5), name="sub"),
    "sub, div": lambda net: net.op("Div", net.op("Sub", "image", net.const(127.5)), _per_channel(net, STDS)),
    "sub, mul": lambda net: net.op("Mul", net.op("Sub", "image", net.const(127.0)), net.const(1 / 128)),
    "div, sub": lambda net: net.op("Sub", net.op("Div", "image", net.const(255.0)), net.const(0.5)),
    "reversed sub": lambda net: net.op("Sub", net.const(1.0), net.op("Mul", "image", net.const(1 / 255))),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1], [2, 0, 1, 3]])
@pytest.mark.parametrize("stride", [1, 2])
def test_one_mean_for_all_channels(graphs, chain, pads, stride):
    net = graphs.Net(seed=1, image=(1, 3, 16, 13))
    value = net.conv(CHAINS[chain](net), (8, 3, 3, 3), pads=pads, strides=[stride, stride], name="conv1")
    after, log = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == (["Pad", "Conv"] if any(pads) else ["Conv"])
    assert len(log.of(RULE).fired) == 1


def test_padded_value_is_the_mean_in_raw_pixels(graphs):
    net = graphs.Net(image=(1, 3, 16, 16))
    value = net.op("Div", net.op("Sub", "image", net.const(127.5)), _per_channel(net, STDS))
    after, _ = graphs.apply(net.model(net.conv(value, (8, 3, 3, 3), pads=[1] * 4, name="conv1")), RULE)
    pad = graphs.node(after, "Pad")
    assert next(iter(pad.input)) == "image"
    assert graphs.constant(after, pad.input[2]) == pytest.approx(127.5, rel=1e-6)
    assert graphs.marks(after) == {"conv1_pad": "conv1_v"}


def test_weights_and_bias_follow_the_published_formula(graphs):
    """conv(W / s, x) + (b - sum of W * m / s), by hand on one 1x1 kernel: (x - 10) / 4 * 2 + 1 = 0.5 x - 4."""
    net = graphs.Net(image=(1, 1, 4, 4))
    value = net.op("Div", net.op("Sub", "image", net.const(10.0)), net.const(4.0))
    value = net.op("Conv", value, net.const([[[[2.0]]]]), net.const([1.0]))
    after, _ = graphs.apply(net.model(value), RULE)
    conv = graphs.node(after, "Conv")
    assert graphs.constant(after, conv.input[1]).item() == 0.5
    assert graphs.constant(after, conv.input[2]).item() == -4.0


def test_per_channel_mean_without_padding(graphs):
    net = graphs.Net(image=(1, 3, 16, 16))
    value = net.op("Div", net.op("Sub", "image", _per_channel(net, MEANS)), _per_channel(net, STDS))
    after, _ = graphs.apply(net.model(net.conv(value, (8, 3, 3, 3), strides=[2, 2])), RULE)
    assert graphs.ops(after) == ["Conv"]


def test_per_channel_mean_with_padding_declines(graphs):
    net = graphs.Net(image=(1, 3, 16, 16))
    value = net.op("Sub", "image", _per_channel(net, MEANS))
    after, log = graphs.apply(net.model(net.conv(value, (8, 3, 3, 3), pads=[1] * 4, name="conv1")), RULE)
    assert graphs.ops(after) == ["Sub", "Conv"]
    assert "different input value in each channel" in log.of(RULE).declined[0].reason


def test_batch_norm_as_the_first_op(graphs):
    net = graphs.Net(image=(1, 3, 16, 16))
    after, _ = graphs.apply(net.model(net.conv(net.batch_norm("image", 3), (8, 3, 3, 3))), RULE)
    assert graphs.ops(after) == ["Conv"]


def test_several_convolutions_read_the_normalised_input(graphs):
    net = graphs.Net(image=(1, 3, 16, 16))
    value = net.op("Sub", "image", net.const(100.0), name="sub")
    one = net.conv(value, (4, 3, 3, 3), pads=[1] * 4, name="one")
    two = net.conv(value, (4, 3, 5, 5), pads=[2] * 4, name="two")
    three = net.conv(value, (4, 3, 1, 1), name="three")
    after, _ = graphs.apply(net.model(one, two, three, hp=["sub"]), RULE)
    assert sorted(graphs.ops(after)) == ["Conv", "Conv", "Conv", "Pad", "Pad"]
    assert graphs.marks(after) == {"one_pad": "one_v", "two_pad": "two_v"}
    assert all(after.tags.of(f"{name}_v").hp for name in ("one", "two", "three"))


def test_gemm_first(graphs):
    net = graphs.Net(image=(1, 12))
    value = net.op("Mul", net.op("Sub", "image", net.normal(12)), net.normal(12))
    after, _ = graphs.apply(net.model(net.op("Gemm", value, net.normal(12, 5))), RULE)
    assert graphs.ops(after) == ["Gemm"]


def test_two_inputs(graphs):
    net = graphs.Net(left=(1, 3, 8, 8), right=(1, 3, 8, 8))
    left = net.conv(net.op("Sub", "left", net.const(10.0)), (4, 3, 3, 3), pads=[1] * 4)
    right = net.conv(net.op("Div", "right", net.const(255.0)), (4, 3, 3, 3), pads=[1] * 4)
    after, log = graphs.apply(net.model(net.op("Add", left, right)), RULE)
    assert sorted(graphs.ops(after)) == ["Add", "Conv", "Conv", "Pad"]
    assert len(log.of(RULE).fired) == 2


@pytest.mark.parametrize("reader", ["Relu", "output", "cpu sub", "cpu conv"])
def test_declines(graphs, reader):
    net = graphs.Net(image=(1, 3, 16, 16))
    value = net.op("Sub", "image", net.const(1.0), name="sub")
    outputs = [net.conv(value, (4, 3, 3, 3), name="conv1")]
    if reader == "Relu":
        outputs.append(net.op("Relu", value, name="r"))
    if reader == "output":
        outputs.append(value)
    after, log = graphs.apply(
        net.model(*outputs, cpu={"cpu sub": ["sub"], "cpu conv": ["conv1"]}.get(reader, [])), RULE
    )
    assert "Sub" in graphs.ops(after)
    expected = {
        "Relu": "'r' (Relu)",
        "output": "'sub_v' is an output",
        "cpu sub": "'sub' is",
        "cpu conv": "'conv1' is",
    }
    assert expected[reader] in log.of(RULE).declined[0].reason


def test_normalisation_in_the_middle_is_not_a_site(graphs):
    net = graphs.Net(image=(1, 3, 16, 16))
    value = net.conv(net.op("Sub", net.op("Relu", "image"), net.const(1.0)), (4, 3, 3, 3))
    _, log = graphs.apply(net.model(value), RULE)
    assert log.of(RULE).fired == log.of(RULE).declined == ()
