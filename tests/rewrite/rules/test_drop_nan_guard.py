"""drop_nan_guard: where attention's softmax is guarded against rows without a number."""

from __future__ import annotations

import numpy as np
import pytest

RULE = "drop_nan_guard"
CAUSAL = np.triu(np.full((4, 4), -np.inf), 1)


def _guarded(net, scores, **names):
    softmax = net.op("Softmax", scores, name="softmax", axis=-1)
    return net.op("Where", net.op("IsNaN", softmax), net.const(0.0), softmax, name="guard", **names)


def test_the_guard_goes_and_its_tag_stays(graphs):
    net = graphs.Net(x=(1, 2, 4, 4))
    after, _ = graphs.apply(net.model(net.op("Relu", _guarded(net, "x")), hp=["guard"]), RULE)
    assert graphs.ops(after) == ["Softmax", "Relu"]
    assert after.tags.of(graphs.node(after, "Softmax").output[0]).hp


def test_a_mask_that_leaves_an_element_of_each_row(graphs):
    net = graphs.Net(x=(1, 2, 4, 4))
    after, _ = graphs.apply(net.model(_guarded(net, net.op("Add", "x", net.const(CAUSAL)))), RULE)
    assert graphs.ops(after) == ["Add", "Softmax"]


def test_a_mask_that_blocks_a_row_declines(graphs):
    net = graphs.Net(x=(1, 2, 4, 4))
    mask = CAUSAL.copy()
    mask[0] = -np.inf
    _, log = graphs.apply(net.model(_guarded(net, net.op("Add", "x", net.const(mask)))), RULE)
    assert log.of(RULE).declined[0].reason == "its mask blocks whole rows"


def test_a_computed_mask_declines(graphs):
    net = graphs.Net(x=(1, 2, 4, 4))
    chosen = net.op("Where", net.op("Greater", "x", net.const(5.0)), net.const(0.0), net.const(-np.inf))
    _, log = graphs.apply(net.model(_guarded(net, net.op("Add", "x", chosen))), RULE)
    assert log.of(RULE).declined[0].reason == "its mask is computed and may block whole rows"


@pytest.mark.parametrize("guarded", ["x", "y"])
def test_a_guard_of_anything_else_is_not_a_site(graphs, guarded):
    net = graphs.Net(x=(1, 2, 4, 4), y=(1, 2, 4, 4))
    softmax = net.op("Softmax", "x", axis=-1)
    chosen = net.op("Where", net.op("IsNaN", guarded), net.const(0.0), softmax if guarded == "x" else "y")
    _, log = graphs.apply(net.model(chosen, softmax), RULE)
    assert log.of(RULE).fired == log.of(RULE).declined == ()
