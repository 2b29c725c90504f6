"""reduce_to_layers: reductions over neighbouring axes as pools and convolutions."""

from __future__ import annotations

import pytest

RULE = "reduce_to_layers"


@pytest.mark.parametrize("axes", [(1,), (-1,), (1, 2), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("op", "layer"), [("ReduceMean", "AveragePool"), ("ReduceMax", "MaxPool"), ("ReduceSum", "Conv")]
)
def test_neighbouring_axes(graphs, op, layer, axes, keepdims):
    net = graphs.Net(opset=18, x=(1, 3, 4, 5))
    model = net.model(net.op(op, "x", net.ints(*axes), keepdims=keepdims, name="r"), hp=["r"])
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Reshape", layer, "Reshape"]
    assert after.tags.of(graphs.node(after, layer).output[0]).hp


@pytest.mark.parametrize(("rows", "turned"), [(31, 0), (32, 1)])
def test_a_long_window_is_all_of_its_map(graphs, rows, turned):
    """GAP8 has windows of at most 31 rows, or of all rows and columns."""
    net = graphs.Net(opset=18, x=(1, rows, 5))
    outputs = [net.op(op, "x", net.ints(1)) for op in ("ReduceMean", "ReduceMax", "ReduceSum")]
    after, _ = graphs.apply(net.model(*outputs), RULE)
    assert graphs.ops(after).count("Transpose") == 3 * turned


def test_length_is_the_root_of_a_sum(graphs):
    net = graphs.Net(opset=18, x=(1, 32))
    outputs = [net.op("ReduceL2", "x", net.ints(1)), net.op("ReduceSumSquare", "x", net.ints(1))]
    after, _ = graphs.apply(net.model(*outputs), RULE)
    assert graphs.ops(after).count("Sqrt") == 1
    assert graphs.ops(after).count("Conv") == 2


def test_the_least_is_the_largest_negative(graphs):
    net = graphs.Net(opset=18, x=(1, 3, 4, 5))
    after, _ = graphs.apply(net.model(net.op("ReduceMin", "x", net.ints(2, 3), name="r"), hp=["r"]), RULE)
    assert graphs.ops(after) == ["Neg", "Reshape", "MaxPool", "Reshape", "Neg"]
    assert after.tags.of(graphs.node(after, "MaxPool").output[0]).hp


def test_axes_apart_decline(graphs):
    net = graphs.Net(opset=18, x=(1, 3, 4, 5))
    _, log = graphs.apply(net.model(net.op("ReduceMean", "x", net.ints(1, 3))), RULE)
    assert "side by side" in log.of(RULE).declined[0].reason
