"""rows_to_conv: a product of many rows with a constant matrix is a 1x1 convolution."""

from __future__ import annotations

import pytest

RULE = "rows_to_conv"


@pytest.mark.parametrize("shape", [(1, 6, 5), (1, 2, 3, 5), (4, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_rows(graphs, shape, bias):
    net = graphs.Net(x=shape)
    value = net.op("MatMul", "x", net.normal(5, 7), name="m")
    value = net.op("Add", net.normal(7), value, name="b") if bias else value
    after, _ = graphs.apply(net.model(value, hp=["m"]), RULE)
    assert graphs.ops(after) == ["Reshape", "Transpose", "Conv", "Transpose", "Reshape"]
    conv = graphs.node(after, "Conv")
    assert len(conv.input) == 2 + bias
    assert after.tags.of(conv.output[0]).hp


def test_one_row_stays(graphs):
    net = graphs.Net(x=(1, 5))
    after, _ = graphs.apply(net.model(net.op("MatMul", "x", net.normal(5, 7))), RULE)
    assert graphs.ops(after) == ["MatMul"]


def test_gemm_of_rows(graphs):
    net = graphs.Net(x=(4, 5))
    after, _ = graphs.apply(net.model(net.op("Gemm", "x", net.normal(7, 5), net.normal(7), transB=1)), RULE)
    assert graphs.ops(after) == ["Reshape", "Transpose", "Conv", "Transpose", "Reshape"]
