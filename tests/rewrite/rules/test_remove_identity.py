"""remove_identity: what goes, what stays, and where tags go."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "remove_identity"


def _no_op(net, value, which):
    """An op of each kind that hands on its [1, 4, 6, 6] input."""
    match which:
        case "Identity" | "Dropout":
            return net.op(which, value, name="gone")
        case "Cast":
            return net.op("Cast", value, to=1, name="gone")
        case "Reshape":
            return net.op("Reshape", value, net.ints(1, 4, 6, 6), name="gone")
        case "Transpose":
            return net.op("Transpose", value, perm=[0, 1, 2, 3], name="gone")
        case "Pad":
            return net.op("Pad", value, net.ints(*[0] * 8), name="gone")
        case "Slice":
            return net.op("Slice", value, net.ints(0), net.ints(1000), net.ints(1), name="gone")
        case "Concat":
            return net.op("Concat", value, axis=1, name="gone")
        case "Sum" | "Max" | "Mean":
            return net.op(which, value, name="gone")
        case "Clip":
            return net.op("Clip", value, name="gone")
        case "MaxPool" | "AveragePool":
            return net.op(which, value, kernel_shape=[1, 1], name="gone")
        case "Resize":
            return net.op("Resize", value, "", net.const([1, 1, 1, 1]), mode="nearest", name="gone")
        case "linear Resize" | "cubic Resize":
            return net.op("Resize", value, "", "", net.ints(1, 4, 6, 6), mode=which.split()[0], name="gone")
        case "x + 0" | "x - 0" | "x * 1" | "x / 1":
            op, number = {"+": ("Add", 0.0), "-": ("Sub", 0.0), "*": ("Mul", 1.0), "/": ("Div", 1.0)}[which[2]]
            return net.op(op, value, net.const(np.full((4, 1, 6), number)), name="gone")
        case "0 + x" | "1 * x":
            op = {"+": "Add", "*": "Mul"}[which[2]]
            return net.op(op, net.const(float(which[0])), value, name="gone")
    raise AssertionError(which)


KINDS = [
    "Identity",
    "Dropout",
    "Cast",
    "Reshape",
    "Transpose",
    "Pad",
    "Slice",
    "Concat",
    "Sum",
    "Max",
    "Mean",
    "Clip",
]
KINDS += [
    "MaxPool",
    "AveragePool",
    "Resize",
    "linear Resize",
    "cubic Resize",
    "x + 0",
    "x - 0",
    "x * 1",
    "x / 1",
    "0 + x",
    "1 * x",
]


@pytest.mark.parametrize("which", KINDS)
def test_no_op_is_removed(graphs, which):
    net = graphs.Net(x=(1, 3, 6, 6))
    value = net.conv("x", (4, 3, 1, 1), name="before")
    model = net.model(net.conv(_no_op(net, value, which), (2, 4, 3, 3), name="after"))
    after, log = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Conv", "Conv"]
    assert log.of(RULE).fired == ("gone",)


@pytest.mark.parametrize(
    "build",
    [
        lambda net: net.op("Transpose", "x", perm=[0, 1, 3, 2]),
        lambda net: net.op("Slice", "x", net.ints(-1), net.ints(-1000), net.ints(2), net.ints(-1)),
        lambda net: net.op("Pad", "x", net.ints(0, 0, 1, 0, 0, 0, -1, 0)),
        lambda net: net.op("MaxPool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        lambda net: net.op("Clip", "x", net.const(-1.0)),
        lambda net: net.op("Max", "x", "y"),
        lambda net: net.op("Sub", net.const(0.0), "x"),
        lambda net: net.op("Div", net.const(1.0), "x"),
        lambda net: net.op("Add", "x", net.const([[[0.0]], [[0.0]], [[0.0]], [[1e-9]]])),
        lambda net: net.op("Mul", "x", net.const(0.0)),
        lambda net: net.op("Mul", "x", "y"),
    ],
)
def test_an_op_that_keeps_the_shape_but_not_the_values_stays(graphs, build):
    net = graphs.Net(x=(1, 4, 6, 6), y=(1, 4, 6, 6))
    model = net.model(net.conv(build(net), (2, 4, 1, 1)), net.op("Relu", "y"))
    after, log = graphs.apply(model, RULE)
    assert graphs.ops(after) == graphs.ops(model)
    assert not log.of(RULE).fired


def test_zeros_that_widen_their_operand_stay(graphs):
    net = graphs.Net(x=(1, 4, 1, 1))
    widened = net.op("Add", net.op("Relu", "x"), net.const(np.zeros((1, 4, 6, 6))))
    after, log = graphs.apply(net.model(net.conv(widened, (2, 4, 3, 3))), RULE)
    assert graphs.ops(after) == ["Relu", "Add", "Conv"]
    assert not log.of(RULE).fired


def test_network_output_keeps_its_name(graphs):
    net = graphs.Net(x=(1, 3, 6, 6))
    model = net.model(net.op("Identity", net.conv("x", (4, 3, 1, 1), name="c"), name="last"))
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Conv"]
    assert list(graphs.node(after, "Conv").output) == ["last_v"]
    assert graphs.node(after, "Conv").name == "c"


def test_declines_between_input_and_output(graphs):
    net = graphs.Net(x=(1, 3, 6, 6))
    after, log = graphs.apply(net.model(net.op("Identity", "x", name="copy")), RULE)
    assert graphs.ops(after) == ["Identity"]
    assert "gives the network output 'copy_v' its name" in log.of(RULE).declined[0].reason


def test_declines_between_two_outputs(graphs):
    net = graphs.Net(x=(1, 3, 6, 6))
    conv = net.conv("x", (4, 3, 1, 1))
    after, log = graphs.apply(net.model(conv, net.op("Identity", conv)), RULE)
    assert graphs.ops(after) == ["Conv", "Identity"]
    assert "is an output itself" in log.of(RULE).declined[0].reason


def test_hp_moves_to_the_op_before(graphs):
    net = graphs.Net(x=(1, 3, 6, 6))
    value = net.op("Identity", net.conv("x", (4, 3, 1, 1), name="c"), name="i")
    after, _ = graphs.apply(net.model(net.op("Relu", value), hp=["i"]), RULE)
    tags = after.tags.of("c_v")
    assert tags.hp
    assert tags.origins == ("c", "i")
    assert set(after.tags.values) == {"c_v"}


def test_hp_with_no_op_before_it_declines(graphs):
    net = graphs.Net(x=(1, 3, 6, 6))
    model = net.model(net.op("Relu", net.op("Identity", "x", name="i")), hp=["i"])
    after, log = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Identity", "Relu"]
    assert "no op before it" in log.of(RULE).declined[0].reason


def test_cpu_keeps_the_op(graphs):
    net = graphs.Net(x=(1, 3, 6, 6))
    value = net.op("Identity", net.conv("x", (4, 3, 1, 1)), name="i_cpu")
    after, log = graphs.apply(net.model(net.op("Relu", value), cpu=["i_cpu"]), RULE)
    assert graphs.ops(after) == ["Conv", "Identity", "Relu"]
    assert "`_cpu`" in log.of(RULE).declined[0].reason


def test_dropout_whose_mask_is_read_stays(graphs):
    net = graphs.Net(x=(1, 3, 6, 6))
    value = net.op("Dropout", "x", name="d", outputs=2)
    mask = net.op("Cast", "d_v1", to=1)
    after, _ = graphs.apply(net.model(net.op("Add", value, mask)), RULE)
    assert "Dropout" in graphs.ops(after)


def test_a_chain_goes_at_once(graphs):
    net = graphs.Net(x=(1, 3, 6, 6))
    value = "x"
    for _ in range(5):
        value = net.op("Identity", value)
    after, log = graphs.apply(net.model(net.op("Relu", value), net.op("Neg", value)), RULE)
    assert sorted(graphs.ops(after)) == ["Neg", "Relu"]
    assert len(log.of(RULE).fired) == 5
    assert np.all(np.array([list(n.input) for n in after.proto().graph.node]) == "x")
