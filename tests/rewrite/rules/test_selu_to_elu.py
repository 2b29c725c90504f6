"""selu_to_elu: the same numbers as ONNX Runtime's own Selu and Celu, in ops that targets have."""

from __future__ import annotations

import pytest

RULE = "selu_to_elu"


@pytest.mark.parametrize(
    ("op", "attributes", "expected"),
    [
        ("Selu", {}, ["Elu", "Mul"]),
        ("Selu", {"alpha": 0.5, "gamma": 1.0}, ["Elu"]),
        ("Celu", {}, ["Elu"]),
        ("Celu", {"alpha": 0.3}, ["Mul", "Elu", "Mul"]),
        ("Celu", {"alpha": -2.0}, ["Celu"]),
    ],
)
def test_factors_around_an_elu(graphs, op, attributes, expected):
    net = graphs.Net(x=(1, 3, 4, 5))
    after, _ = graphs.apply(net.model(net.op(op, "x", name="a", **attributes), hp=["a"]), RULE)
    assert graphs.ops(after) == expected
    assert all(after.tags.of(node.output[0]).hp for node in after.proto().graph.node)
