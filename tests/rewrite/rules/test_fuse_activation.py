"""fuse_activation: activations are marked as a part of the layer before them."""

from __future__ import annotations

import pytest

RULE = "fuse_activation"
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
    after, _ = graphs.apply(model, RULE)
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
    after, log = graphs.apply(model, RULE)
    assert graphs.marks(after) == {}
    reasons = {d.site.split(" + ")[1]: d.reason for d in log.of(RULE).declined}
    expected = {
        "shared": "also read by",
        "output": "also an output",
        "bounds": "its min is not constant",
        "slopes": "slopes are not constant",
        "map": "its 256 slopes are not one per channel (4)",
        "constant": "adds a constant",
        "a_cpu": "'a_cpu' is tagged `_cpu`",
        "b": "'c_cpu' is tagged `_cpu`",
    }
    assert set(reasons) == set(expected)
    assert all(expected[name] in reasons[name] for name in expected)
