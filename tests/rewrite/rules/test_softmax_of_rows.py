"""softmax_of_rows: softmax along any axis, as one of the rows of a matrix."""

from __future__ import annotations

import pytest

RULE = "softmax_of_rows"


@pytest.mark.parametrize(
    ("shape", "axis", "ops"),
    [
        ((1, 3, 4, 5), -1, ["Reshape", "Softmax", "Reshape"]),
        ((2, 4, 5), 2, ["Reshape", "Softmax", "Reshape"]),
        ((1, 3, 4, 5), 2, ["Transpose", "Reshape", "Softmax", "Reshape", "Transpose"]),
        ((1, 3, 4), 1, ["Transpose", "Softmax", "Transpose"]),
        ((1, 3, 4, 5), 1, ["Softmax"]),
        ((1, 4, 5), -1, ["Softmax"]),
    ],
)
def test_axis(graphs, shape, axis, ops):
    net = graphs.Net(x=shape)
    after, _ = graphs.apply(net.model(net.op("Softmax", "x", axis=axis, name="s"), hp=["s"]), RULE)
    assert graphs.ops(after) == ops
    assert after.tags.of(graphs.node(after, "Softmax").output[0]).hp


def test_no_axis_is_the_last_one(graphs):
    net = graphs.Net(x=(1, 3, 4, 5))
    after, _ = graphs.apply(net.model(net.op("Softmax", "x")), RULE)
    assert graphs.ops(after) == ["Reshape", "Softmax", "Reshape"]
