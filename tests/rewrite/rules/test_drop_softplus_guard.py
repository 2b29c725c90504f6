"""drop_softplus_guard: Softplus as PyTorch's exporter writes it, a choice between x and the function."""

from __future__ import annotations

import pytest

RULE = "drop_softplus_guard"


def _guarded(net, value, threshold, beta=1.0):
    scaled = value if beta == 1.0 else net.op("Mul", value, net.const(beta))
    result = net.op("Softplus", scaled, name="softplus")
    result = result if beta == 1.0 else net.op("Div", result, net.const(beta))
    return net.op("Where", net.op("Greater", scaled, net.const(threshold)), value, result, name="choice")


@pytest.mark.parametrize(("beta", "left"), [(1.0, ["Softplus"]), (2.0, ["Mul", "Softplus", "Div"])])
def test_the_choice_goes_and_its_tag_stays(graphs, beta, left):
    net = graphs.Net(x=(1, 2, 8, 8))
    wide = net.op("Mul", "x", net.const(30.0))
    after, _ = graphs.apply(net.model(_guarded(net, wide, 20.0, beta), hp=["choice"]), RULE)
    assert graphs.ops(after) == ["Mul", *left]
    assert after.tags.of(after.proto().graph.node[-1].output[0]).hp


def test_a_low_threshold_stays(graphs):
    net = graphs.Net(x=(1, 2, 4, 4))
    _, log = graphs.apply(net.model(_guarded(net, "x", 3.0)), RULE)
    assert log.of(RULE).fired == ()
    assert "under 15" in log.of(RULE).declined[0].reason


def test_another_choice_is_not_a_site(graphs):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 2, 4, 4))
    test = net.op("Greater", "x", net.const(20.0))
    _, log = graphs.apply(net.model(net.op("Where", test, "y", net.op("Softplus", "x"))), RULE)
    assert log.of(RULE).fired == log.of(RULE).declined == ()
