"""batch_norm_to_conv: an affine map that folds nowhere becomes a 1x1 depthwise convolution."""

from __future__ import annotations

import pytest

RULE = "batch_norm_to_conv"


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
    after, _ = graphs.apply(model, RULE)
    conv = graphs.node(after, "Conv")
    assert conv.name == "a"
    assert graphs.attribute(conv, "group") == 4
    tags = after.tags.of(conv.output[0])
    assert tags.hp
    assert tags.cpu
    assert set(graphs.ops(after)) <= {"Relu", "Conv", "Reshape"}


def test_rows_are_normalised_by_their_columns(graphs):
    """Several rows of features, as the tokens of an attention are."""
    net = graphs.Net(x=(6, 4))
    model = net.model(net.op("Relu", net.batch_norm(net.op("Relu", "x"), 4, name="a")), hp=["a"])
    after, log = graphs.apply(model, RULE)
    assert log.of(RULE).fired == ("a",)
    assert graphs.ops(after) == ["Relu", "Reshape", "Transpose", "Conv", "Transpose", "Reshape", "Relu"]
    assert after.tags.of(graphs.node(after, "Conv").output[0]).hp


def test_last_resort_declines_for_other_ranks(graphs):
    net = graphs.Net(x=(1, 4, 5))
    after, log = graphs.apply(net.model(net.op("Mul", net.op("Relu", "x"), net.const(2.0))), RULE)
    assert graphs.ops(after) == ["Relu", "Mul"]
    assert "neither [1, C, H, W] nor [1, C]" in log.of(RULE).declined[0].reason


def test_declines_with_a_constant_that_differs_within_a_channel(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    scaled = net.op("Mul", net.conv("x", (6, 4, 1, 1)), net.normal(8))
    shifted = net.op("Add", net.conv("x", (6, 4, 1, 1)), net.normal(1, 1, 8, 8))
    after, log = graphs.apply(net.model(scaled, shifted), "fold_scale", "add_constant_to_bias", RULE)
    assert {d.reason for d in log.of(RULE).declined} == {"its constant differs within a channel"}
    assert sorted(graphs.ops(after)) == ["Add", "Conv", "Conv", "Mul"]


def test_scale_and_shift_are_one_convolution(graphs):
    net = graphs.Net(x=(1, 3, 4, 5))
    value = net.op("Add", net.op("Mul", "x", net.normal(3, 1, 1), name="m"), net.normal(3, 1, 1), name="a")
    after, _ = graphs.apply(net.model(net.batch_norm(value, 3), hp=["m"]), RULE)
    assert graphs.ops(after) == ["Conv"]
    assert after.tags.of(graphs.node(after, "Conv").output[0]).hp
