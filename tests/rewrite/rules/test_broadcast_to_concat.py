"""broadcast_to_concat: one number a channel, repeated over the map by Concat."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.graph.onnx_runtime import FloatSession

RULE = "broadcast_to_concat"


def concats(model):
    return [len(node.input) for node in model.proto().graph.node if node.op_type == "Concat"]


@pytest.mark.parametrize(
    ("side", "inputs"),
    [
        ((7, 7), [7, 7]),
        ((1, 5), [5]),
        ((32, 3), [3, 32]),
        ((2, 37), [2, 19, 2]),  # 18 blocks of two and one that is left over
        ((2, 96), [32, 3, 2]),
        ((1, 1024), [32, 32]),
    ],
)
def test_gives_what_onnx_runtime_gives(graphs, side, inputs):
    net = graphs.Net(x=(1, 3, *side), s=(1, 3, 1, 1))
    before = net.model(net.op("Mul", "s", "x", name="m"))
    after, _ = graphs.apply(before, RULE)
    assert concats(after) == inputs
    shapes = {name: np.random.default_rng(1).normal(size=(1, 3, *s)) for name, s in {"x": side, "s": (1, 1)}.items()}
    given = {name: value.astype(np.float32) for name, value in shapes.items()}
    np.testing.assert_array_equal(FloatSession(after).run(given)["m_v"], given["x"] * given["s"])


@pytest.mark.parametrize("op", ["Add", "Sub", "Max"])
def test_order_of_operands_stays(graphs, op):
    net = graphs.Net(x=(2, 3, 4, 5), s=(2, 3, 1, 1))
    after, _ = graphs.apply(net.model(net.op(op, "s", "x", name="m"), hp=["m"]), RULE)
    given = {"x": np.full((2, 3, 4, 5), 2, np.float32), "s": np.arange(6, dtype=np.float32).reshape(2, 3, 1, 1)}
    function = {"Add": np.add, "Sub": np.subtract, "Max": np.maximum}[op]
    np.testing.assert_array_equal(FloatSession(after).run(given)["m_v"], function(given["s"], given["x"]))
    assert all(after.tags.of(node.output[0]).hp for node in after.proto().graph.node)


def test_declines(graphs):
    net = graphs.Net(x=(1, 3, 4, 4), row=(1, 3, 1, 4), s=(1, 3, 1, 1))
    outputs = [
        net.op("Mul", "x", "row", name="row_by_row"),
        net.op("Mul", "x", "s", name="on_the_cpu"),
    ]
    _, log = graphs.apply(net.model(*outputs, cpu=["on_the_cpu"]), RULE)
    reasons = {each.site: each.reason for each in log.of(RULE).declined}
    assert "one number for each channel" in reasons["row_by_row"]
    assert "`_cpu`" in reasons["on_the_cpu"]
