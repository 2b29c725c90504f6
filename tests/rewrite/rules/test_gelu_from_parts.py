"""gelu_from_parts: Gelu as exporters write it without the operator."""

from __future__ import annotations

import math

import pytest

RULE = "gelu_from_parts"
OPSET = 21
ROOT = math.sqrt(2)


def _erf(net, x, number=ROOT):
    return net.op("Add", net.op("Erf", net.op("Div", x, net.const(number)), name="erf"), net.const(1.0))


def _half_last(net):
    return net.op("Mul", net.op("Mul", "x", _erf(net, "x")), net.const(0.5), name="last")


def _half_first(net):
    return net.op("Mul", net.op("Mul", net.const(0.5), "x"), _erf(net, "x"), name="last")


def _gate_halved(net):
    return net.op("Mul", net.op("Div", _erf(net, "x"), net.const(2.0)), "x", name="last")


def _by_tanh(net, cube):
    inner = net.op(
        "Mul", net.op("Add", "x", net.op("Mul", cube, net.const(0.044715))), net.const(math.sqrt(2 / math.pi))
    )
    gate = net.op("Add", net.const(1.0), net.op("Tanh", inner))
    return net.op("Mul", net.op("Mul", "x", net.const(0.5)), gate, name="last")


def _power(net):
    return _by_tanh(net, net.op("Pow", "x", net.const(3.0)))


def _products(net):
    return _by_tanh(net, net.op("Mul", net.op("Mul", "x", "x"), "x"))


def _taken_out(net):
    square = net.op("Mul", net.op("Mul", net.const(0.044715), "x"), "x")
    scaled = net.op("Mul", "x", net.const(math.sqrt(2 / math.pi)))
    inner = net.op("Mul", scaled, net.op("Add", net.const(1.0), square))
    return net.op("Mul", net.op("Mul", net.const(0.5), "x"), net.op("Add", net.op("Tanh", inner), net.const(1.0)))


@pytest.mark.parametrize(
    ("write", "approximate"),
    [
        (_half_last, "none"),
        (_half_first, "none"),
        (_gate_halved, "none"),
        (_power, "tanh"),
        (_products, "tanh"),
        (_taken_out, "tanh"),
    ],
)
def test_every_spelling_becomes_one_layer(graphs, write, approximate):
    net = graphs.Net(opset=OPSET, x=(1, 3, 8))
    after, _ = graphs.apply(net.model(net.op("Relu", write(net))), RULE)
    assert graphs.ops(after) == ["Gelu", "Relu"]
    (attribute,) = graphs.node(after, "Gelu").attribute
    assert attribute.s.decode() == approximate


def test_a_half_that_another_layer_took_leaves_a_factor(graphs):
    net = graphs.Net(opset=OPSET, x=(1, 3, 8))
    after, _ = graphs.apply(net.model(net.op("Mul", "x", _erf(net, "x"), name="last"), hp=["erf"]), RULE)
    assert graphs.ops(after) == ["Gelu", "Mul"]
    assert after.tags.of(graphs.node(after, "Mul").output[0]).hp


def test_the_input_may_be_a_product_itself(graphs):
    net = graphs.Net(opset=OPSET, x=(1, 3, 8), y=(1, 3, 8))
    value = net.op("Mul", "x", "y")
    gelu = net.op("Mul", net.op("Mul", value, _erf(net, value)), net.const(0.5))
    after, _ = graphs.apply(net.model(gelu), RULE)
    assert graphs.ops(after) == ["Mul", "Gelu"]


def test_a_part_that_is_read_elsewhere_declines(graphs):
    net = graphs.Net(opset=OPSET, x=(1, 3, 8))
    gate = _erf(net, "x")
    other = net.op("Relu", gate, name="other")
    _, log = graphs.apply(net.model(net.op("Mul", "x", gate, name="last"), other), RULE)
    assert "is read elsewhere, by 'other'" in log.of(RULE).declined[0].reason


def test_an_opset_without_gelu_declines(graphs):
    net = graphs.Net(opset=17, x=(1, 3, 8))
    _, log = graphs.apply(net.model(_half_last(net)), RULE)
    assert log.of(RULE).declined[0].reason == "Gelu is an operator from opset 20 on"


def test_other_constants_and_functions_are_no_site(graphs):
    net = graphs.Net(opset=OPSET, x=(1, 3, 8))
    wrong = net.op("Mul", "x", _erf(net, "x", 1.5))
    sigmoid = net.op("Mul", "x", net.op("Add", net.op("Sigmoid", "x"), net.const(1.0)))
    tanh = net.op("Mul", "x", net.op("Add", net.op("Tanh", "x"), net.const(1.0)))
    _, log = graphs.apply(net.model(wrong, sigmoid, tanh), RULE)
    assert log.of(RULE).fired == log.of(RULE).declined == ()
