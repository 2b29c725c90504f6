"""merge_matmul: a matrix that all heads share multiplies the rows of all of them at once."""

from __future__ import annotations

import pytest

RULE = "merge_matmul"


@pytest.mark.parametrize("shared", [(1, 1, 6, 5), (1, 6, 5), (6, 5)])
def test_rows_of_all_heads(graphs, shared):
    net = graphs.Net(x=(1, 4, 3, 6), y=shared)
    after, _ = graphs.apply(net.model(net.op("MatMul", "x", "y", name="m"), hp=["m"]), RULE)
    assert graphs.ops(after) == ["Reshape", "Reshape", "MatMul", "Reshape"]
    assert after.tags.of(graphs.node(after, "MatMul").output[0]).hp


def test_heads_that_share_a_matrix_in_groups(graphs):
    net = graphs.Net(x=(1, 2, 4, 3, 6), y=(1, 2, 1, 6, 5))
    after, _ = graphs.apply(net.model(net.op("MatMul", "x", "y")), RULE)
    assert graphs.ops(after) == ["Reshape", "Reshape", "MatMul", "Reshape"]


@pytest.mark.parametrize("rows", [1, 3])
def test_a_matrix_for_each_pixel_that_its_heads_share(graphs, rows):
    net = graphs.Net(x=(2, 4, 7, rows, 6), y=(1, 7, 6, 5))
    after, _ = graphs.apply(net.model(net.op("MatMul", "x", "y", name="m"), hp=["m"]), RULE)
    assert graphs.ops(after) == ["Transpose", "Reshape", "Reshape", "MatMul", "Reshape", "Transpose"]
    assert after.tags.of(graphs.node(after, "MatMul").output[0]).hp


@pytest.mark.parametrize(("left", "right"), [((3, 1, 2, 6), (1, 4, 6, 5)), ((4, 2, 6), (6,)), ((2, 6), (4, 6, 5))])
def test_other_broadcasts_stay(graphs, left, right):
    net = graphs.Net(x=left, y=right)
    _, log = graphs.apply(net.model(net.op("MatMul", "x", "y")), RULE)
    assert log.of(RULE).fired == ()


def test_a_matrix_for_each_head_stays(graphs):
    net = graphs.Net(x=(1, 4, 3, 6), y=(1, 4, 6, 5))
    _, log = graphs.apply(net.model(net.op("MatMul", "x", "y")), RULE)
    assert log.of(RULE).fired == ()
