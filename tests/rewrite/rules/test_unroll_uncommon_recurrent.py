"""unroll_uncommon_recurrent: recurrent layers that no chip computes whole become their steps."""

from __future__ import annotations

import pytest

RULE = "unroll_uncommon_recurrent"


def _recurrent(net, kind, outputs, **attributes):
    gates = {"GRU": 3, "LSTM": 4}[kind]
    constants = [net.normal(1, gates * 4, size, scale=0.4) for size in (6, 4)]
    constants.append(net.normal(1, 2 * gates * 4, scale=0.3))
    return net.op(kind, "x", *constants, name="r", outputs=outputs, hidden_size=4, **attributes)


@pytest.mark.parametrize(
    ("kind", "attributes", "result"),
    [
        ("GRU", {"linear_before_reset": 1, "direction": "reverse"}, "r_v"),
        ("LSTM", {"direction": "reverse"}, "r_v1"),
        ("LSTM", {}, "r_v2"),
    ],
)
def test_layers_that_run_backwards_and_cells_that_are_read(graphs, kind, attributes, result):
    net = graphs.Net(x=(5, 1, 6))
    _recurrent(net, kind, 3 if kind == "LSTM" else 2, **attributes)
    after, _ = graphs.apply(net.model(result), RULE)
    assert kind not in graphs.ops(after)


def test_a_layer_of_which_the_states_alone_are_read_stays(graphs):
    net = graphs.Net(x=(5, 1, 6))
    first = _recurrent(net, "LSTM", 3)
    after, _ = graphs.apply(net.model(first, "r_v1"), RULE)
    assert graphs.ops(after) == ["LSTM"]


def test_one_that_runs_backwards_and_resets_first_declines(graphs):
    net = graphs.Net(x=(5, 1, 6))
    first = _recurrent(net, "GRU", 2, direction="reverse")
    _, log = graphs.apply(net.model(first), RULE)
    assert "resets its state" in log.of(RULE).declined[0].reason
