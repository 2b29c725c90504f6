"""mask_above_zero: attention's masks as numbers of 0, and all else above."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

RULE = "mask_above_zero"
CAUSAL = np.triu(np.ones((5, 5), bool), 1)
MADE = ["Mul", "Reshape", "MaxPool", "Reshape", "Add", "Add", "Mul", "Softmax"]


@pytest.mark.parametrize("low", [-np.inf, -10000.0])
def test_a_mask(graphs, low):
    net = graphs.Net(x=(1, 2, 5, 5))
    net.constants.append(numpy_helper.from_array(np.where(CAUSAL, np.float32(low), np.float32(0)), "k"))
    net.nodes += [helper.make_node("Add", ["x", "k"], ["m"], name="m"), helper.make_node("Softmax", ["m"], ["y"])]
    model = net.model("y")
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == MADE
    x = np.random.default_rng(5).normal(0, 30, (1, 2, 5, 5)).astype(np.float32)
    (before_y,), (after_y,) = graphs.run(model, {"x": x}), graphs.run(after, {"x": x})
    np.testing.assert_allclose(after_y, before_y, rtol=0, atol=1e-5)
    assert after_y[0, :, CAUSAL].max() < 1e-9
