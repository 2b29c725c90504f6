"""matrices_to_conv: products with several constant matrices are grouped convolutions."""

from __future__ import annotations

import pytest

RULE = "matrices_to_conv"


@pytest.mark.parametrize(("shape", "matrices"), [((1, 4, 6, 5), (4,)), ((1, 1, 6, 5), (1, 4)), ((3, 6, 5), (3,))])
def test_behind(graphs, shape, matrices):
    net = graphs.Net(x=shape)
    after, _ = graphs.apply(net.model(net.op("MatMul", "x", net.normal(*matrices, 5, 7), name="m"), hp=["m"]), RULE)
    assert graphs.ops(after) == ["Transpose", "Reshape", "Conv", "Reshape", "Transpose"]
    assert after.tags.of(graphs.node(after, "Conv").output[0]).hp


@pytest.mark.parametrize(("shape", "matrices"), [((1, 4, 5, 6), (1, 4)), ((1, 4, 5, 6), ()), ((1, 5, 6), (4,))])
def test_in_front(graphs, shape, matrices):
    net = graphs.Net(x=shape)
    after, _ = graphs.apply(net.model(net.op("MatMul", net.normal(*matrices, 7, 5), "x", name="m")), RULE)
    assert graphs.ops(after) == ["Reshape", "Conv", "Reshape"]


@pytest.mark.parametrize("weights", [(5, 7), (1, 5, 7)])
def test_one_matrix_behind_stays(graphs, weights):
    net = graphs.Net(x=(1, 4, 6, 5))
    after, _ = graphs.apply(net.model(net.op("MatMul", "x", net.normal(*weights))), RULE)
    assert graphs.ops(after) == ["MatMul"]


def test_a_value_of_some_of_the_matrices_stays(graphs):
    net = graphs.Net(x=(2, 1, 6, 5))
    after, log = graphs.apply(net.model(net.op("MatMul", "x", net.normal(3, 5, 7))), RULE)
    assert graphs.ops(after) == ["MatMul"]
    assert "batch axes" in str(log.of(RULE))
