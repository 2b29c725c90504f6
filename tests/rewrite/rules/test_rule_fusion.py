"""fuse_activation, fuse_pool, pool_before_concat, flatten_concat, sum_to_add, order_mul."""

from __future__ import annotations

import numpy as np
import pytest

ACTIVATION, POOL, PARTS = "fuse_activation", "fuse_pool", "pool_before_concat"
FLATTEN, SUM, MUL = "flatten_concat", "sum_to_add", "order_mul"

ACTIVATIONS = {
    "Relu": lambda net, v: net.op("Relu", v, name="act"),
    "Relu6": lambda net, v: net.op("Clip", v, net.const(0.0), net.const(6.0), name="act"),
    "HardTanh": lambda net, v: net.op("Clip", v, net.const(-1.0), net.const(1.0), name="act"),
    "LeakyRelu": lambda net, v: net.op("LeakyRelu", v, alpha=0.1, name="act"),
    "PRelu": lambda net, v: net.op("PRelu", v, net.normal(4, 1, 1), name="act"),
    "PRelu, one slope": lambda net, v: net.op("PRelu", v, net.normal(1), name="act"),
}


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize("producer", ["Conv", "ConvTranspose", "Add"])
def test_activation_is_marked(graphs, kind, producer):
    net = graphs.Net(x=(1, 4, 8, 8), y=(1, 4, 8, 8))
    value = {
        "Conv": lambda: net.conv("x", (4, 4, 3, 3), name="p"),
        "ConvTranspose": lambda: net.op("ConvTranspose", "x", net.normal(4, 4, 2, 2), name="p"),
        "Add": lambda: net.op("Add", "x", "y", name="p"),
    }[producer]()
    model = net.model(ACTIVATIONS[kind](net, value), net.op("Relu", "y"), hp=["act"])
    after, _ = graphs.apply(model, ACTIVATION)
    assert graphs.ops(after) == graphs.ops(model)
    assert graphs.marks(after) == {"act": "p_v"}
    assert after.tags.of("p_v").hp
    assert after.tags.of("p_v").origins == ("p", "act")
    assert set(after.tags.values) == {"p_v"}


def test_activation_declines(graphs):
    net = graphs.Net(x=(1, 4, 8, 8), slope=(4, 1, 1))
    shared = net.conv("x", (4, 4, 1, 1), name="c1")
    net.op("Relu", shared, name="shared")
    output = net.conv("x", (4, 4, 1, 1), name="c2")
    net.op("Relu", output, name="output")
    net.op("Clip", net.conv("x", (4, 4, 1, 1)), net.op("ReduceMin", "x", keepdims=0), name="bounds")
    net.op("PRelu", net.conv("x", (4, 4, 1, 1)), "slope", name="slopes")
    net.op("PRelu", net.conv("x", (4, 4, 1, 1)), net.normal(4, 8, 8), name="map")
    net.op("Relu", net.op("Add", "x", net.normal(4, 1, 1), name="plus"), name="constant")
    net.op("Relu", net.conv("x", (4, 4, 1, 1)), name="a_cpu")
    net.op("Relu", net.conv("x", (4, 4, 1, 1), name="c_cpu"), name="b")
    names = ["shared", "output", "bounds", "slopes", "map", "constant", "a_cpu", "b"]
    model = net.model(*(f"{n}_v" for n in names), net.op("Neg", shared), output, cpu=["a_cpu", "c_cpu"])
    after, log = graphs.apply(model, ACTIVATION)
    assert graphs.marks(after) == {}
    reasons = {d.site.split(" + ")[1]: d.reason for d in log.of(ACTIVATION).declined}
    expected = {
        "shared": "also read by",
        "output": "also an output",
        "bounds": "bounds are not constant",
        "slopes": "slopes are not constant",
        "map": "slopes differ within a channel",
        "constant": "adds a constant",
        "a_cpu": "'a_cpu' is tagged `_cpu`",
        "b": "'c_cpu' is tagged `_cpu`",
    }
    assert set(reasons) == set(expected)
    assert all(expected[name] in reasons[name] for name in expected)


POOLS = {
    "max": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "max with ceil_mode": ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "average": ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "average, padding counted": (
        "AveragePool",
        {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
}


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("activation", [True, False])
def test_pool_is_marked(graphs, kind, activation):
    net = graphs.Net(x=(1, 4, 10, 10))
    value = net.conv("x", (4, 4, 3, 3), name="c")
    value = net.op("Relu", value, name="act") if activation else value
    op, attributes = POOLS[kind]
    after, _ = graphs.apply(net.model(net.op(op, value, name="p", **attributes), hp=["p"]), ACTIVATION, POOL)
    assert graphs.marks(after) == ({"act": "c_v", "p": "c_v"} if activation else {"p": "c_v"})
    assert after.tags.of("c_v").hp


@pytest.mark.parametrize(
    ("op", "attributes", "text"),
    [
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, "average fewer elements"),
        ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, "average fewer elements"),
        ("MaxPool", {"kernel_shape": [3, 3], "dilations": [2, 2]}, "dilated"),
        ("MaxPool", {"kernel_shape": [3, 3], "outputs": 2}, "indices"),
    ],
)
def test_pool_declines(graphs, op, attributes, text):
    net = graphs.Net(x=(1, 4, 8, 8))
    after, log = graphs.apply(net.model(net.op(op, net.conv("x", (4, 4, 1, 1)), **attributes)), POOL)
    assert graphs.marks(after) == {}
    assert text in log.of(POOL).declined[0].reason


def test_pool_declines_when_needed_elsewhere_or_tagged(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    relu = net.op("Relu", net.conv("x", (4, 4, 1, 1)), name="act")
    pool = net.op("MaxPool", relu, kernel_shape=[2, 2], name="p")
    after, log = graphs.apply(net.model(pool, relu), ACTIVATION, POOL)
    assert "also an output" in log.of(POOL).declined[0].reason
    after, log = graphs.apply(net.model(pool, cpu=["p"]), ACTIVATION, POOL)
    assert "`_cpu`" in log.of(POOL).declined[0].reason
    assert graphs.marks(after) == {"act": "conv0_v"}
    after, log = graphs.apply(net.model(pool, cpu=["act"]), ACTIVATION, POOL)
    assert graphs.marks(after) == {}


def _fire(net, value, channels=4):
    squeeze = net.op("Relu", net.conv(value, (channels, 4, 1, 1), name="squeeze"))
    one = net.op("Relu", net.conv(squeeze, (6, channels, 1, 1), name="e1"), name="r1")
    three = net.op("Relu", net.conv(squeeze, (7, channels, 3, 3), pads=[1] * 4, name="e3"), name="r3")
    return net.op("Concat", one, three, axis=1, name="cat")


@pytest.mark.parametrize("kind", POOLS)
def test_fire_and_pool(graphs, kind):
    net = graphs.Net(x=(1, 4, 11, 9))
    op, attributes = POOLS[kind]
    model = net.model(net.op(op, _fire(net, "x"), name="pool", **attributes), hp=["pool", "cat"])
    after, _ = graphs.apply(model, PARTS, ACTIVATION, POOL)
    nodes = after.proto().graph.node
    assert nodes[-1].op_type == "Concat"
    assert nodes[-1].name == "cat"
    marks = graphs.marks(after)
    assert (marks["r1"], marks["r3"]) == ("e1_v", "e3_v")
    assert sorted(marks[n.name] for n in nodes if n.op_type == op) == ["e1_v", "e3_v"]
    assert after.tags.of("e1_v").hp
    assert "pool" in after.tags.of("e3_v").origins
    assert after.tags.of("pool_v").origins == ("cat",)


def test_pool_before_concat_declines(graphs):
    net = graphs.Net(x=(1, 4, 8, 8), y=(1, 4, 8, 8))
    pooled = net.op("MaxPool", net.op("Concat", "x", "y", axis=1), kernel_shape=[2, 2], name="inputs")
    fire = _fire(net, "x")
    shared = net.op("MaxPool", fire, kernel_shape=[2, 2], name="shared")
    cpu = net.op("Concat", net.conv("x", (2, 4, 1, 1)), "y", axis=1)
    cpu = net.op("MaxPool", cpu, kernel_shape=[2, 2], name="p_cpu")
    indices = net.op("Concat", net.conv("x", (2, 4, 1, 1)), "y", axis=1)
    indices = net.op("MaxPool", indices, kernel_shape=[2, 2], name="indices", outputs=2)
    after, log = graphs.apply(net.model(pooled, shared, fire, cpu, indices, cpu=["p_cpu"]), PARTS)
    reasons = {d.site.split(" + ")[1]: d.reason for d in log.of(PARTS).declined}
    assert "no part is the result of a convolution" in reasons["inputs"]
    assert "also an output" in reasons["shared"]
    assert "`_cpu`" in reasons["p_cpu"]
    assert "indices" in reasons["indices"]
    assert graphs.ops(after).count("MaxPool") == 4


def test_pool_over_a_concatenation_along_rows_is_not_a_site(graphs):
    net = graphs.Net(x=(1, 4, 8, 8))
    conv = net.conv("x", (4, 4, 1, 1))
    model = net.model(net.op("MaxPool", net.op("Concat", conv, "x", axis=2), kernel_shape=[2, 2]))
    after, log = graphs.apply(model, PARTS)
    assert log.of(PARTS).fired == log.of(PARTS).declined == ()
    assert graphs.ops(after) == graphs.ops(model)


@pytest.mark.parametrize("axes", [(1, 1), (1, -3)])
def test_nested_concatenations(graphs, axes):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 3, 4, 4))
    inner = net.op("Concat", "y", "x", axis=axes[0], name="inner")
    outer = net.op("Concat", "x", inner, "y", axis=axes[1], name="outer")
    after, _ = graphs.apply(net.model(outer, hp=["inner"]), FLATTEN)
    assert graphs.ops(after) == ["Concat"]
    assert list(graphs.node(after, "Concat").input) == ["x", "y", "x", "y"]
    assert after.tags.of("outer_v").hp


def test_nested_concatenations_decline(graphs):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 2, 4, 4))
    inner = net.op("Concat", "y", "x", axis=1, name="inner")
    outer = net.op("Concat", "x", inner, axis=1, name="outer")
    other_axis = net.op("Concat", inner, inner, axis=2)
    _, log = graphs.apply(net.model(outer, other_axis), FLATTEN)
    assert "also read by" in log.of(FLATTEN).declined[0].reason
    _, log = graphs.apply(net.model(outer, cpu=["inner"]), FLATTEN)
    assert "`_cpu`" in log.of(FLATTEN).declined[0].reason


def test_concatenations_along_different_axes_stay(graphs):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 2, 4, 4))
    inner = net.op("Concat", "y", "x", axis=1)
    after, log = graphs.apply(net.model(net.op("Concat", inner, net.op("Concat", "x", "y", axis=1), axis=2)), FLATTEN)
    assert graphs.ops(after) == ["Concat", "Concat", "Concat"]
    assert log.of(FLATTEN).declined == ()


@pytest.mark.parametrize("terms", [2, 3, 5])
def test_sum(graphs, terms):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 2, 4, 4))
    value = net.op("Sum", *(["x", "y"] * 3)[:terms], name="sum")
    after, _ = graphs.apply(net.model(value, hp=["sum"], cpu=["sum"]), SUM)
    assert graphs.ops(after) == ["Add"] * (terms - 1)
    tags = [after.tags.of(n.output[0]) for n in after.proto().graph.node]
    assert all(t.hp and t.cpu for t in tags)


def test_sum_declines_with_broadcasting(graphs):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 2, 1, 1))
    _, log = graphs.apply(net.model(net.op("Sum", "x", "y")), SUM)
    assert "do not all have the shape" in log.of(SUM).declined[0].reason


def test_gate_goes_second(graphs):
    net = graphs.Net(x=(1, 2, 4, 4), gate=(1, 2, 1, 1))
    model = net.model(net.op("Mul", "gate", "x", name="m"), net.op("Mul", "x", "gate"), hp=["m"], cpu=["m"])
    after, log = graphs.apply(model, MUL)
    assert [list(n.input) for n in after.proto().graph.node] == [["x", "gate"], ["x", "gate"]]
    assert log.of(MUL).fired == ("m",)
    assert after.tags.of("m_v").hp
    assert after.tags.of("m_v").cpu
    constant = graphs.Net(x=(1, 2, 4, 4))
    _, log = graphs.apply(constant.model(constant.op("Mul", constant.const(np.ones((2, 1, 1))), "x")), MUL)
    assert log.of(MUL).fired == ()
