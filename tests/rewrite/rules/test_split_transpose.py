"""split_transpose: a Transpose of many axes as several of at most four, the batch apart."""

from __future__ import annotations

from itertools import permutations

import pytest

RULE = "split_transpose"
_ORDERS = list(permutations(range(1, 6)))[1::17]


@pytest.mark.parametrize("order", [(0, *order) for order in _ORDERS])
def test_six_axes(graphs, order):
    net = graphs.Net(x=(1, 2, 3, 2, 4, 5))
    after, _ = graphs.apply(net.model(net.op("Transpose", "x", perm=list(order), name="t"), hp=["t"]), RULE)
    turns = [node for node in after.proto().graph.node if node.op_type == "Transpose"]
    assert all(len(graphs.attribute(node, "perm")) <= 5 for node in turns)
    assert after.tags.of("t_v").hp


@pytest.mark.parametrize(("shape", "order"), [((1, 4, 5), (2, 0, 1)), ((1, 3, 4, 5), (2, 0, 3, 1))])
def test_batch_of_one_that_moves(graphs, shape, order):
    net = graphs.Net(x=shape)
    after, _ = graphs.apply(net.model(net.op("Transpose", "x", perm=list(order))), RULE)
    assert all(
        graphs.attribute(node, "perm")[0] == 0 for node in after.proto().graph.node if node.op_type == "Transpose"
    )


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1)])
def test_batch_of_several_counts_as_an_axis(graphs, order):
    net = graphs.Net(x=(3, 4, 5))
    after, _ = graphs.apply(net.model(net.op("Transpose", "x", perm=list(order))), RULE)
    assert graphs.ops(after) == ["Reshape", "Transpose", "Reshape"]
