"""sink_transpose: networks whose layers stand between two Transposes, as Keras exports them."""

from __future__ import annotations

RULE = "sink_transpose"
RULES = ("remove_identity", "merge_transposes", RULE)


def _last(net, value):
    return net.op("Transpose", value, perm=[0, 2, 3, 1])


def _first(net, value, **names):
    return net.op("Transpose", value, perm=[0, 3, 1, 2], **names)


def _normalised(net, value, name):
    """A normalisation of 4 channels behind."""
    centred = net.op("Sub", value, net.normal(4), name=f"{name}_sub")
    return net.op("Add", net.op("Mul", net.normal(1, 1, 1, 4), centred), net.normal(4), name=name)


def test_convolutions_get_their_normalisation_and_activation_back(graphs):
    net = graphs.Net(x=(1, 3, 6, 5))
    value = _normalised(net, _last(net, net.conv("x", (4, 3, 3, 3))), "norm")
    value = net.op("Clip", value, net.const(0.0), net.const(6.0), name="clip")
    net.conv(_first(net, value), (4, 4, 1, 1), name="second")
    after, _ = graphs.apply(net.model("second_v", hp=["clip"]), *RULES)
    assert graphs.ops(after) == ["Conv", "Sub", "Mul", "Add", "Clip", "Conv"]
    assert after.tags.of(graphs.node(after, "Clip").output[0]).hp


def test_a_residual_and_a_gate_for_each_channel(graphs):
    net = graphs.Net(x=(1, 4, 6, 5), gate=(1, 1, 1, 4))
    left = _normalised(net, _last(net, net.conv("x", (4, 4, 1, 1))), "left")
    right = _normalised(net, _last(net, net.conv(_first(net, left), (4, 4, 1, 1))), "right")
    joined = net.op("Mul", net.op("Add", right, left), "gate")
    net.conv(_first(net, joined), (4, 4, 1, 1), name="last")
    after, _ = graphs.apply(net.model("last_v"), *RULES)
    kinds = graphs.ops(after)
    assert kinds.count("Transpose") == 1, "that of the gate, which has one number for each channel"
    assert list(graphs.attribute(graphs.node(after, "Transpose"), "perm")) == [0, 3, 1, 2]


def test_parts_are_joined_along_the_channels(graphs):
    net = graphs.Net(x=(1, 4, 6, 5))
    net.conv(_first(net, net.op("Concat", _last(net, "x"), _last(net, "x"), axis=-1)), (4, 8, 1, 1), name="last")
    after, _ = graphs.apply(net.model("last_v"), *RULES)
    assert graphs.ops(after) == ["Concat", "Conv"]
    assert graphs.attribute(graphs.node(after, "Concat"), "axis") == 1


def test_pooling_of_all_rows_and_columns(graphs):
    for keeps, expected in ((0, ["ReduceMean"]), (1, ["ReduceMean", "Transpose"])):
        net = graphs.Net(x=(1, 4, 6, 5))
        after, _ = graphs.apply(net.model(net.op("ReduceMean", _last(net, "x"), axes=[1, 2], keepdims=keeps)), *RULES)
        assert graphs.ops(after) == expected
        newer = graphs.Net(x=(1, 4, 6, 5), opset=18)  # whose axes are an input
        axes = newer.ints(1, 2)
        after, _ = graphs.apply(newer.model(newer.op("ReduceMean", _last(newer, "x"), axes, keepdims=keeps)), *RULES)
        assert graphs.ops(after) == expected


def test_what_is_not_turned_back_stays(graphs):
    net = graphs.Net(x=(1, 4, 6, 5))
    _, log = graphs.apply(net.model(net.op("Relu", _last(net, "x"))), *RULES)
    assert log.of(RULE).fired == ()
    assert log.of(RULE).declined[0].reason == "nothing behind it turns its result back"


def test_other_operands_decline(graphs):
    net = graphs.Net(x=(1, 4, 6, 5), y=(1, 6, 5, 4))
    _, log = graphs.apply(net.model(_first(net, net.op("Add", _last(net, "x"), "y"))), *RULES)
    assert "neither turned" in log.of(RULE).declined[0].reason
    some = graphs.Net(x=(1, 4, 6, 5), y=(1, 6, 5, 4))
    _, log = graphs.apply(some.model(_first(some, some.op("Concat", _last(some, "x"), "y", axis=3))), *RULES)
    assert "some of its parts" in log.of(RULE).declined[0].reason
