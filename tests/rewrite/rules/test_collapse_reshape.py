"""collapse_reshape: chains of ops that only change the shape become one."""

from __future__ import annotations

RULE = "collapse_reshape"


def test_collapse_merges_any_chain(graphs):
    net = graphs.Net(x=(1, 4, 3, 5))
    value = net.op("Unsqueeze", net.op("Reshape", "x", net.ints(4, 15)), net.ints(0))
    value = net.op("Transpose", net.op("Reshape", value, net.ints(1, 60, 1, 1)), perm=[0, 2, 3, 1])
    value = net.op("Flatten", net.op("Squeeze", value, net.ints(1)))
    after, _ = graphs.apply(net.model(net.op("Relu", value)), RULE)
    assert graphs.ops(after) == ["Reshape", "Relu"]


def test_collapse_leaves_a_transpose_that_moves_data(graphs):
    net = graphs.Net(x=(1, 4, 3, 5))
    value = net.op("Flatten", net.op("Transpose", "x", perm=[0, 2, 3, 1]))
    after, _ = graphs.apply(net.model(value), RULE)
    assert graphs.ops(after) == ["Transpose", "Flatten"]


def test_collapse_keeps_what_others_read_and_what_is_tagged_cpu(graphs):
    net = graphs.Net(x=(1, 4, 3, 5))
    first = net.op("Flatten", "x", name="f")
    second = net.op("Reshape", first, net.ints(1, 20, 3, 1), name="s")
    model = net.model(net.op("Neg", first), second)
    after, _ = graphs.apply(model, RULE)
    assert sorted(graphs.ops(after)) == ["Flatten", "Neg", "Reshape"]
    assert next(iter(graphs.node(after, "Reshape").input)) == "x"
    after, log = graphs.apply(net.model(net.op("Neg", first), second, cpu=["s"]), RULE)
    assert "`_cpu`" in log.of(RULE).declined[0].reason
