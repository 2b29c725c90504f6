"""comparison_to_sign: masks that people write with `==` and `>`."""

from __future__ import annotations

import pytest
from onnx import TensorProto

RULE = "comparison_to_sign"
EXPECTED = {
    "Equal": ["Sub", "Abs", "Sign", "Sub"],
    "Greater": ["Sub", "Relu", "Sign"],
    "Less": ["Sub", "Relu", "Sign"],
    "GreaterOrEqual": ["Sub", "Relu", "Sign", "Sub"],
    "LessOrEqual": ["Sub", "Relu", "Sign", "Sub"],
}


@pytest.mark.parametrize(("kind", "expected"), EXPECTED.items(), ids=EXPECTED)
def test_the_peaks_of_a_map(graphs, kind, expected):
    """Values that are equal to the bit, and such that are not: the two sides of every comparison occur."""
    net = graphs.Net(x=(1, 3, 6, 5))
    pooled = net.op("MaxPool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
    mask = net.op("Cast", net.op(kind, pooled, "x", name="test"), to=TensorProto.FLOAT, name="a")
    after, _ = graphs.apply(net.model(mask, hp=["a"]), RULE)
    assert graphs.ops(after) == ["MaxPool", *expected]
    assert after.tags.of("a_v").hp


def test_with_a_number(graphs):
    net = graphs.Net(x=(1, 3, 4, 5))
    after, _ = graphs.apply(
        net.model(net.op("Cast", net.op("Greater", "x", net.const(0.5)), to=TensorProto.FLOAT)), RULE
    )
    assert graphs.ops(after) == ["Sub", "Relu", "Sign"]


def test_whole_numbers_decline(graphs):
    net = graphs.Net(x=(1, 3, 4, 5))
    whole = net.op("Cast", "x", to=TensorProto.INT64)
    _, log = graphs.apply(net.model(net.op("Cast", net.op("Equal", whole, whole), to=TensorProto.FLOAT)), RULE)
    assert "no float32" in log.of(RULE).declined[0].reason
