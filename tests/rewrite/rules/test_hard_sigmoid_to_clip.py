"""hard_sigmoid_to_clip: HardSigmoid as a sum, a clamp and a factor."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.graph.onnx_runtime import FloatSession

RULE = "hard_sigmoid_to_clip"


@pytest.mark.parametrize(
    ("attributes", "ops"),
    [
        ({}, ["Add", "Clip", "Mul"]),
        ({"alpha": 1 / 6}, ["Add", "Clip", "Mul"]),
        ({"alpha": 0.25, "beta": 0.0}, ["Clip", "Mul"]),
        ({"alpha": 0.5, "beta": -1.0}, ["Add", "Clip", "Mul"]),
    ],
)
def test_gives_what_onnx_runtime_gives(graphs, attributes, ops):
    net = graphs.Net(x=(1, 3, 8, 8))
    before = net.model(net.op("HardSigmoid", "x", name="h", **attributes))
    after, _ = graphs.apply(before, RULE)
    assert graphs.ops(after) == ops
    x = {"x": np.random.default_rng(1).normal(0, 4, (1, 3, 8, 8)).astype(np.float32)}
    np.testing.assert_allclose(FloatSession(after).run(x)["h_v"], FloatSession(before).run(x)["h_v"], atol=1e-6)


def test_declines_and_tags(graphs):
    net = graphs.Net(x=(1, 3, 4, 4))
    falling = net.op("HardSigmoid", "x", name="falling", alpha=-1.0)
    kept = net.op("HardSigmoid", falling, name="kept")
    high = net.op("HardSigmoid", kept, name="high")
    after, log = graphs.apply(net.model(high, cpu=["kept"], hp=["high"]), RULE)
    assert {d.site: d.reason for d in log.of(RULE).declined}["falling"] == "its alpha is -1"
    assert graphs.ops(after) == ["HardSigmoid", "HardSigmoid", "Add", "Clip", "Mul"]
    assert [after.tags.of(node.output[0]).hp for node in after.proto().graph.node] == [False, False, True, True, True]
