"""unroll_recurrent: a GRU or LSTM as the steps that it takes."""

from __future__ import annotations

import pytest

RULE = "unroll_recurrent"


def _recurrent(net, kind, directions=1, **attributes):
    gates = {"GRU": 3, "LSTM": 4}[kind]
    constants = [net.normal(directions, gates * 4, size, scale=0.4) for size in (6, 4)]
    constants.append(net.normal(directions, 2 * gates * 4, scale=0.3))
    outputs = 3 if kind == "LSTM" else 2
    first = net.op(kind, "x", *constants, name="r", outputs=outputs, hidden_size=4, **attributes)
    return [first, *(f"{first}{index}" for index in range(1, outputs))]


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("kind", "attributes"), [("GRU", {"linear_before_reset": 1}), ("LSTM", {})])
def test_steps(graphs, kind, attributes, direction):
    net = graphs.Net(x=(5, 1, 6))
    directions = 2 if direction == "bidirectional" else 1
    model = net.model(*_recurrent(net, kind, directions, direction=direction, **attributes), hp=["r"])
    after, _ = graphs.apply(model, RULE)
    ops = graphs.ops(after)
    assert kind not in ops
    assert ops.count("Conv") == directions * 5  # all steps of x at once, and the states of all steps but the last
    assert after.tags.of(graphs.node(after, "Conv").output[0]).hp


@pytest.mark.parametrize(
    ("kind", "attributes", "steps", "reason"),
    [
        ("GRU", {}, 5, "resets its state"),
        ("LSTM", {"clip": 1.0}, 5, "clips"),
        ("LSTM", {}, 200, "200 steps"),
        ("LSTM", {"activations": ["Sigmoid", "HardSigmoid", "Tanh"]}, 5, "its activations"),
    ],
)
def test_others_decline(graphs, kind, attributes, steps, reason):
    net = graphs.Net(x=(steps, 1, 6))
    _, log = graphs.apply(net.model(_recurrent(net, kind, **attributes)[0]), RULE)
    assert reason in log.of(RULE).declined[0].reason


@pytest.mark.parametrize(
    ("kind", "functions"),
    [
        ("LSTM", ["Sigmoid", "Relu", "Relu", "Softsign", "Tanh", "Softplus"]),
        ("GRU", ["Sigmoid", "Relu", "Softsign", "Tanh"]),
    ],
)
def test_other_activations_of_each_direction(graphs, kind, functions):
    net = graphs.Net(x=(3, 1, 6))
    attributes = {"linear_before_reset": 1} if kind == "GRU" else {}
    values = _recurrent(net, kind, 2, direction="bidirectional", activations=functions, **attributes)
    after, _ = graphs.apply(net.model(*values), RULE)
    assert set(functions) <= set(graphs.ops(after))
