"""clip_to_relus."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from nnkit.graph.onnx_runtime import FloatSession

RULE = "clip_to_relus"


def values(*shape):
    """Far outside the bounds, between them and near them."""
    random = np.random.default_rng(5).normal(0, 4, shape).astype(np.float32)
    random.reshape(-1)[:8] = [0.0, 6.0, -1.5, 2.25, 5.9999995, 6.0000005, 1e4, -1e4]
    return random


def test_the_bounds_of_a_table_stay(graphs):
    net = graphs.Net(x=(1, 5))
    kept = net.op("Cast", net.op("Clip", "x", net.const(0.0), net.const(9.0)), to=TensorProto.INT64)
    rows = net.op("Gather", net.const(values(10, 4)), kept)
    after, log = graphs.apply(net.model(rows), RULE)
    assert graphs.ops(after) == ["Clip", "Cast", "Gather"]
    assert "indices of rows" in log.of(RULE).declined[0].reason


@pytest.mark.parametrize(
    ("low", "high", "ops"),
    [
        (0.0, 6.0, ["Relu", "Sub", "Relu", "Sub"]),
        (0.0, None, ["Relu"]),
        (None, 2.25, ["Sub", "Relu", "Sub"]),
        (None, 0.0, ["Relu", "Sub"]),
        (-1.5, None, ["Sub", "Relu", "Add"]),
        (-1.5, 2.25, ["Sub", "Relu", "Sub", "Relu", "Sub", "Add"]),
        (-6.0, 0.0, ["Sub", "Relu", "Sub", "Relu", "Sub", "Add"]),
        (2.25, 2.25, ["Sub", "Relu", "Relu", "Sub", "Add"]),
    ],
)
def test_gives_what_onnx_runtime_gives_for_the_clip(graphs, low, high, ops):
    net = graphs.Net(x=(1, 3, 8, 8))
    bounds = ["" if bound is None else net.const(bound) for bound in (low, high)]
    before = net.model(net.op("Clip", "x", *bounds, name="c"))
    after, log = graphs.apply(before, RULE)
    assert graphs.ops(after) == ops
    assert log.of(RULE).fired == ("c",)
    x = {"x": values(1, 3, 8, 8)}
    # all bounds are short binary numbers, and x - bound is then rounded only where |x| is far below the bound
    np.testing.assert_allclose(
        FloatSession(after).run(x)["c_v"], FloatSession(before).run(x)["c_v"], rtol=0, atol=1e-6
    )


def test_relu6_is_equal_in_every_bit_wherever_it_clamps(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    before = net.model(net.op("Clip", "x", net.const(0.0), net.const(6.0)))
    after, _ = graphs.apply(before, RULE)
    name, x = before.outputs[0].name, {"x": values(1, 3, 8, 8)}
    expected, found = FloatSession(before).run(x)[name], FloatSession(after).run(x)[name]
    np.testing.assert_array_equal(found, expected)


def test_the_first_relu_alone_reads_the_layer_before(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    after, _ = graphs.apply(
        net.model(net.op("Clip", net.conv("x", (4, 3, 1, 1)), net.const(0.0), net.const(6.0))), RULE
    )
    conv = after.proto().graph.node[0]
    assert [node.op_type for node in after.proto().graph.node if conv.output[0] in node.input] == ["Relu"]


def test_tags(graphs):
    net = graphs.Net(x=(1, 3, 4, 4))
    first = net.op("Clip", "x", net.const(0.0), net.const(6.0), name="first")
    second = net.op("Clip", first, net.const(0.0), net.const(3.0), name="second")
    after, log = graphs.apply(net.model(second, hp=["first"], cpu=["second"]), RULE)
    assert graphs.ops(after) == ["Relu", "Sub", "Relu", "Sub", "Clip"]
    assert [after.tags.of(node.output[0]).hp for node in after.proto().graph.node] == [True] * 4 + [False]
    assert "`_cpu`" in log.of(RULE).declined[0].reason


def test_declines(graphs):
    net = graphs.Net(x=(1, 3, 4, 4))
    net.op("Clip", "x", "", net.op("ReduceMax", "x", keepdims=0), name="computed")
    net.op("Clip", "x", net.const(2.0), net.const(1.0), name="crossed")
    net.op("Clip", net.op("Cast", "x", to=TensorProto.INT32), net.const(0, np.int32), name="whole")
    outputs = [net.op("Cast", "whole_v", to=TensorProto.FLOAT), "computed_v", "crossed_v"]
    _, log = graphs.apply(net.model(*outputs), RULE)
    assert {d.site: d.reason for d in log.of(RULE).declined} == {
        "computed": "its max is not constant",
        "crossed": "its bounds 2 and 1 cross",
        "whole": "'whole' computes integers",
    }
