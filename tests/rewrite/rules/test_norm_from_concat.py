"""norm_from_concat: every spelling of a normalisation, rebuilt, is what it was in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.rewrite import restructure
from nnkit.rewrite.rules.norm_from_concat import RULE, make

REBUILT = {"Reshape", "Pow", "ReduceSum", "ReduceMean", "Mul", "Add", "Concat", "Flatten"}


def sum_add_sqrt_div(net, x, a):
    total = net.op("ReduceSum", net.op("Mul", x, x), net.ints(1), keepdims=1)
    return net.op("Div", x, net.op("Sqrt", net.op("Add", total, net.const(a))), name="norm")


def mean_pow_div(net, x, a):
    mean = net.op("ReduceMean", net.op("Pow", x, net.const(2.0)), axes=[1], keepdims=0)
    return net.op("Div", x, net.op("Pow", net.op("Add", net.const([a]), mean), net.const(0.5)), name="norm")


def sum_square_reciprocal(net, x, a):
    total = net.op("ReduceSumSquare", x, axes=[1], keepdims=1)
    root = net.op("Sqrt", net.op("Add", total, net.const([[a]])))
    return net.op("Mul", net.op("Reciprocal", root), x, name="norm")


def inverse_power(net, x, a):
    total = net.op("Add", net.op("ReduceSumSquare", x, axes=[1], keepdims=1), net.const(a))
    return net.op("Mul", x, net.op("Pow", total, net.const(-0.5)), name="norm")


def one_over(net, x, a):
    root = net.op("Sqrt", net.op("Add", net.op("ReduceSumSquare", x, axes=[-1], keepdims=1), net.const(a)))
    return net.op("Mul", x, net.op("Div", net.const(3.0), root), name="norm")


def scaled_inside(net, x, a):
    mean = net.op("ReduceMean", net.op("Mul", x, x), axes=[1], keepdims=1)
    inside = net.op("Add", net.op("Mul", net.op("Div", mean, net.const(0.5)), net.const(0.25)), net.const(a))
    return net.op("Div", x, net.op("Mul", net.op("Sqrt", inside), net.const(2.0)), name="norm")


SPELLINGS = [sum_add_sqrt_div, mean_pow_div, sum_square_reciprocal, inverse_power, one_over, scaled_inside]


def feature(graphs, length, spell, a=1.0, axes=2, seed=0):
    net = graphs.Net(x=(1, 6), seed=seed)
    x = net.op("Gemm", "x", net.normal(6, length), net.normal(length), name="fc")
    if axes == 4:
        x = net.op("Reshape", x, net.ints(1, length, 1, 1))
    return net, spell(net, x, a)


@pytest.mark.parametrize("spell", SPELLINGS)
@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize(("length", "a"), [(64, 1.0), (12, 1e-3), (37, 0.0)])
def test_every_spelling(graphs, spell, reduce, length, a):
    net, y = feature(graphs, length, spell, a)
    model = net.model(y)
    after, log = restructure(model, [make(reduce)])  # compares by itself, too
    assert log.of("norm_from_concat").fired
    assert not log.of("norm_from_concat").declined
    graphs.assert_equal(model, after, bound=2e-6)
    ops = set(graphs.ops(after))
    assert ops <= REBUILT | {"Gemm"}
    assert ("ReduceMean" in ops) == (reduce == "mean")


@pytest.mark.parametrize("length", [2, 31, 32, 33, 97, 512, 1000, 1021, 4096])
def test_any_length_with_short_concats(graphs, length):
    net, y = feature(graphs, length, sum_add_sqrt_div, axes=2)
    model = net.model(y)
    after, _ = restructure(model, [RULE])
    graphs.assert_equal(model, after, bound=2e-6)
    for node in after.proto().graph.node:
        assert node.op_type != "Concat" or len(node.input) <= 32


@pytest.mark.parametrize("spell", [sum_add_sqrt_div, mean_pow_div])
def test_feature_maps_of_one_pixel(graphs, spell):
    net = graphs.Net(image=(1, 3, 5, 5))
    x = net.conv("image", (20, 3, 5, 5))
    if spell is mean_pow_div:
        x = net.op("Flatten", x)
    model = net.model(spell(net, x, 0.5))
    after, log = restructure(model, [RULE])
    assert len(log.of("norm_from_concat").fired) == 1
    graphs.assert_equal(model, after, bound=2e-6)


def test_lp_normalization(graphs):
    net, y = feature(graphs, 24, lambda net, x, _: net.op("LpNormalization", x, axis=1, p=2, name="norm"))
    model = net.model(y)
    after, _ = restructure(model, [make("mean")])
    graphs.assert_equal(model, after, bound=2e-6)
    assert "LpNormalization" not in graphs.ops(after)


def test_every_layer_is_one_that_caffe_has_and_stays_within_nnie(graphs):
    net, y = feature(graphs, 48, sum_add_sqrt_div)
    after, _ = restructure(net.model(y), [RULE])
    proto = after.proto()
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in proto.graph.value_info}
    constants = {t.name for t in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "Mul" and not set(node.input) & constants:  # Eltwise: no broadcasting
            assert shapes[node.input[0]] == shapes[node.input[1]]
        if node.op_type == "Pow":  # Power: NNIE's exponents
            exponent = float(graphs.constant(after, node.input[1]))
            assert exponent in (-3, -2, -1, -0.5, 0.5, 1, 2, 3)


def test_the_high_precision_tag_goes_to_the_product(graphs):
    net, y = feature(graphs, 8, sum_add_sqrt_div)
    after, _ = restructure(net.model(y, hp=["norm"]), [RULE])
    (tagged,) = (value for value, tags in after.tags.values.items() if tags.hp)
    node = next(node for node in after.proto().graph.node if tagged in node.output)
    assert (node.op_type, node.name) == ("Mul", "norm")


def expanded(net, x, a):
    length = net.op("Clip", net.op("ReduceL2", x, axes=[1], keepdims=1), net.const(a))
    return net.op("Div", x, net.op("Expand", length, net.ints(1, 16)), name="norm")


def clipped(net, x, a):
    return net.op("Div", x, net.op("Clip", net.op("ReduceL2", x, axes=[1]), net.const(a)), name="norm")


@pytest.mark.parametrize("spell", [clipped, expanded])
def test_a_floor_needs_the_constant(graphs, spell):
    net, y = feature(graphs, 16, spell, a=1e-4)
    model = net.model(y)
    same, log = restructure(model, [RULE])
    assert same.proto() == model.proto()
    (declined,) = log.of("norm_from_concat").declined
    assert "below 0.0001" in declined.reason
    assert "`a: 1e-08`" in declined.reason
    after, log = restructure(model, [make(a=1e-8)])
    assert not log.of("norm_from_concat").exact
    graphs.assert_equal(model, after, bound=1e-6)


def test_another_constant_moves_it_by_the_stated_bound(graphs):
    net, y = feature(graphs, 16, sum_add_sqrt_div, a=1.0)
    model = net.model(y)
    after, log = restructure(model, [make(a=1.5)])
    assert RULE.exact
    assert not log.of("norm_from_concat").exact
    rng = np.random.default_rng(5)
    for _ in range(20):
        feeds = {"x": rng.normal(0, 2, (1, 6)).astype(np.float32)}
        (left,), (right,) = graphs.run(model, feeds), graphs.run(after, feeds)
        x = graphs.run(with_output(model, "fc_v"), feeds)[0].astype(np.float64)
        bound = 0.5 / (2 * (np.sum(x**2) + 1.0))
        assert 0 < np.linalg.norm(left - right) <= bound * np.linalg.norm(left) + 1e-6


def with_output(model, name):
    from dataclasses import replace

    proto = model.proto()
    proto.graph.output[0].name = name
    return replace(model, onnx_bytes=proto.SerializeToString())


def per_position(net, x, a):
    return net.op("Div", x, net.op("ReduceL2", x, axes=[1], keepdims=1), name="norm")


def one_norm(net, x, a):
    return net.op("LpNormalization", x, axis=1, p=1, name="norm")


def added_to_the_length(net, x, a):
    return net.op("Div", x, net.op("Add", net.op("ReduceL2", x, axes=[1]), net.const(a)), name="norm")


def squared(net, x, a):
    return net.op("Div", x, net.op("ReduceSumSquare", x, axes=[1]), name="norm")


@pytest.mark.parametrize(
    ("spell", "shape", "reason"),
    [
        (per_position, (1, 4, 3, 3), "each position of [1, 4, 3, 3]"),
        (one_norm, (1, 4, 1, 1), "sum of magnitudes"),
        (added_to_the_length, (1, 4, 1, 1), "adds 1 to the length"),
        (squared, (1, 4, 1, 1), "the power -1 of the squared length"),
        (sum_add_sqrt_div, (1, 4100, 1, 1), "4100 elements"),
    ],
)
def test_declines(graphs, spell, shape, reason):
    net = graphs.Net(x=shape)
    model = net.model(spell(net, "x", 1.0))
    same, log = restructure(model, [RULE])
    (declined,) = log.of("norm_from_concat").declined
    assert reason in declined.reason
    assert same.proto() == model.proto()


def test_what_others_read_stays(graphs):
    net = graphs.Net(x=(1, 8))
    total = net.op("Add", net.op("ReduceSumSquare", "x", axes=[1], keepdims=1), net.const(1.0), name="total")
    y = net.op("Div", "x", net.op("Sqrt", total), name="norm")
    model = net.model(y, total)
    after, _ = restructure(model, [RULE])
    graphs.assert_equal(model, after, bound=2e-6)
    assert "ReduceSumSquare" in graphs.ops(after)
