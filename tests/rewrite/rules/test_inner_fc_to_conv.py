"""inner_fc_to_conv: a fully connected layer that others than its like follow becomes a convolution."""

from __future__ import annotations

import pytest

RULE = "inner_fc_to_conv"


@pytest.mark.parametrize("tail", ["HardSwish", "Exp"])
def test_one_with_another_layer_behind(graphs, tail):
    net = graphs.Net(x=(1, 4, 6, 6))
    hidden = net.op("Gemm", net.op("Flatten", "x"), net.normal(144, 10), net.normal(10), name="hidden")
    y = net.op("Gemm", net.op(tail, hidden), net.normal(10, 5), net.normal(5), name="last")
    after, log = graphs.apply(net.model(y, hp=["hidden"]), RULE)
    assert graphs.ops(after).count("Conv") == 1
    assert log.of(RULE).fired == ("hidden",)
    assert [each.site for each in log.of(RULE).declined] == ["last"]


def test_a_chain_of_its_like_stays(graphs):
    net = graphs.Net(x=(1, 8))
    hidden = net.op("Relu", net.op("Gemm", "x", net.normal(8, 6), name="a"))
    y = net.op("Softmax", net.op("MatMul", hidden, net.normal(6, 5), name="b"))
    after, _ = graphs.apply(net.model(y), RULE)
    assert "Conv" not in graphs.ops(after)


def test_a_product_of_two_computed_values_behind(graphs):
    net = graphs.Net(x=(1, 8), z=(6, 5))
    y = net.op("MatMul", net.op("Gemm", "x", net.normal(8, 6), name="a"), "z")
    after, _ = graphs.apply(net.model(y), RULE)
    assert graphs.ops(after).count("Conv") == 1
