"""merge_transposes: two Transposes in a row."""

from __future__ import annotations

RULE = "merge_transposes"


def test_one_order_of_two(graphs):
    net = graphs.Net(x=(1, 2, 3, 4))
    twice = net.op("Transpose", net.op("Transpose", "x", perm=[0, 2, 3, 1]), name="t", perm=[3, 0, 2, 1])
    after, _ = graphs.apply(net.model(twice, hp=["t"]), RULE)
    assert graphs.ops(after) == ["Transpose"]
    assert after.tags.of("t_v").hp


def test_what_is_turned_back_goes(graphs):
    net = graphs.Net(x=(1, 2, 3, 4))
    there = net.op("Transpose", net.op("Relu", "x"), perm=[0, 2, 3, 1])
    back = net.op("Transpose", there, perm=[0, 3, 1, 2])
    after, _ = graphs.apply(net.model(net.op("Relu", back), net.op("Exp", there)), RULE, "remove_identity")
    assert sorted(graphs.ops(after)) == ["Exp", "Relu", "Relu", "Transpose"]
