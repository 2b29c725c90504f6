"""relu_before_copies: a Relu comes before a concatenation or nearest resize."""

from __future__ import annotations

import pytest

RULE = "relu_before_copies"


def test_a_relu_moves_before_a_concatenation(graphs):
    net = graphs.Net(x=(1, 3, 9, 8))
    parts = [net.conv("x", (4, 3, 3, 3), pads=[1, 1, 1, 1], name=name) for name in ("one", "other")]
    whole = net.op("Concat", *parts, axis=1, name="concat")
    after, _ = graphs.apply(net.model(net.op("Relu", whole, name="act"), hp=["act"]), RULE)
    nodes = after.proto().graph.node
    assert graphs.ops(after) == ["Conv", "Conv", "Relu", "Relu", "Concat"]
    assert nodes[-1].name == "concat"
    assert [after.tags.of(node.output[0]).hp for node in nodes] == [False, False, True, True, False]


@pytest.mark.parametrize(("mode", "moved"), [("nearest", True), ("linear", False)])
def test_a_relu_moves_before_a_nearest_resize_alone(graphs, mode, moved):
    net = graphs.Net(x=(1, 3, 4, 4))
    resize = net.op("Resize", "x", "", net.const([1.0, 1.0, 2.0, 2.0]), mode=mode, name="resize")
    after, _ = graphs.apply(net.model(net.op("Relu", resize)), RULE)
    assert graphs.ops(after) == (["Relu", "Resize"] if moved else ["Resize", "Relu"])


def test_it_declines_where_the_whole_is_read_elsewhere(graphs):
    net = graphs.Net(x=(1, 3, 4, 4))
    whole = net.op("Concat", "x", "x", axis=1)
    _, log = graphs.apply(net.model(net.op("Relu", whole), whole), RULE)
    assert "is also an output" in log.of(RULE).declined[0].reason
