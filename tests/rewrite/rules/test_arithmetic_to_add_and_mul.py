"""arithmetic_to_add_and_mul: differences, quotients, maxima and minima of computed values."""

from __future__ import annotations

import pytest

RULE = "arithmetic_to_add_and_mul"


@pytest.mark.parametrize(
    ("op", "ops"),
    [
        ("Sub", ["Mul", "Add"]),
        ("Max", ["Mul", "Add", "Relu", "Add"]),
        ("Min", ["Mul", "Add", "Relu", "Mul", "Add"]),
    ],
)
def test_two_values(graphs, op, ops):
    net = graphs.Net(x=(1, 3, 4, 5), y=(1, 3, 4, 5))
    after, _ = graphs.apply(net.model(net.op(op, "x", "y", name="s"), hp=["s"]), RULE)
    assert graphs.ops(after) == ops
    assert after.tags.of("s_v").hp


@pytest.mark.parametrize("constant", [False, True])
def test_quotient(graphs, constant):
    net = graphs.Net(x=(1, 3), y=(1, 3))
    divisor = net.op("Exp", "y")
    after, _ = graphs.apply(net.model(net.op("Div", net.normal(1, 3) if constant else "x", divisor)), RULE)
    assert graphs.ops(after) == ["Exp", "Reciprocal", "Mul"]


def test_three_values_decline_and_constants_stay(graphs):
    net = graphs.Net(x=(1, 3), y=(1, 3), z=(1, 3))
    outputs = [net.op("Max", "x", "y", "z"), net.op("Sub", "x", net.normal(1, 3))]
    after, log = graphs.apply(net.model(*outputs), RULE)
    assert graphs.ops(after) == ["Max", "Sub"]
    assert "3 values" in log.of(RULE).declined[0].reason


def test_expanded_divisor(graphs):
    net = graphs.Net(x=(1, 6), y=(1, 1))
    divisor = net.op("Expand", net.op("Exp", "y"), net.ints(1, 6))
    after, _ = graphs.apply(net.model(net.op("Div", "x", divisor)), RULE)
    assert graphs.ops(after) == ["Exp", "Reciprocal", "Mul"]


def test_negative(graphs):
    net = graphs.Net(x=(1, 3, 4, 5))
    after, _ = graphs.apply(net.model(net.op("Neg", "x", name="n"), hp=["n"]), RULE)
    assert graphs.ops(after) == ["Mul"]
    assert after.tags.of("n_v").hp
