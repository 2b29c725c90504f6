"""constant_part_to_conv: the constant part of a concatenation, computed from another part."""

from __future__ import annotations

RULE = "constant_part_to_conv"


def test_constant_part(graphs):
    net = graphs.Net(x=(1, 4, 5))
    after, _ = graphs.apply(net.model(net.op("Concat", net.normal(1, 1, 5), "x", axis=1, name="c"), hp=["c"]), RULE)
    assert graphs.ops(after) == ["Reshape", "Slice", "Mul", "Add", "Reshape", "Concat"]
    assert after.tags.of(graphs.node(after, "Add").output[0]).hp


def test_large_constant_declines(graphs):
    net = graphs.Net(x=(1, 1, 5))
    _, log = graphs.apply(net.model(net.op("Concat", net.normal(1, 3, 5), "x", axis=1)), RULE)
    assert "as large as a constant" in log.of(RULE).declined[0].reason
