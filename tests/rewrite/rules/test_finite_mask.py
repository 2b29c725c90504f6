"""finite_mask: attention's masks in numbers that formats have room for."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

RULE = "finite_mask"
CAUSAL = np.triu(np.ones((5, 5), bool), 1)
MADE = ["Mul", "Reshape", "MaxPool", "Reshape", "Expand", "Mul", "Add", "Mul", "Add", "Softmax"]


def _softmax(graphs, op, *inputs, constants, shape=(1, 2, 5, 5), axis=-1):
    net = graphs.Net(x=shape)
    net.constants += [numpy_helper.from_array(array, name) for name, array in constants.items()]
    net.nodes += [
        helper.make_node(op, inputs, ["m"], name="m"),
        helper.make_node("Softmax", ["m"], ["y"], axis=axis),
    ]
    return net.model("y")


@pytest.mark.parametrize("low", [-np.inf, np.finfo(np.float32).min, -1e9, -10000.0])
@pytest.mark.parametrize("order", [("x", "k"), ("k", "x")])
def test_an_added_mask(graphs, low, order):
    mask = np.where(CAUSAL, np.float32(low), np.float32(0))
    model = _softmax(graphs, "Add", *order, constants={"k": mask})
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == MADE
    assert "m" not in {name for node in after.proto().graph.node for name in node.output}  # no number of it is kept
    x = np.random.default_rng(5).normal(0, 30, (1, 2, 5, 5)).astype(np.float32)
    (before_y,), (after_y,) = graphs.run(model, {"x": x}), graphs.run(after, {"x": x})
    np.testing.assert_allclose(after_y, before_y, rtol=0, atol=1e-6)
    assert after_y[0, :, CAUSAL].max() < 1e-9


def test_what_the_mask_adds_besides_stays(graphs):
    bias = np.random.default_rng(3).normal(0, 1, (1, 2, 5, 5)).astype(np.float32)
    model = _softmax(graphs, "Add", "x", "k", constants={"k": np.where(CAUSAL, np.float32(-np.inf), bias)})
    after, _ = graphs.apply(model, RULE)
    assert graphs.ops(after) == ["Add", *MADE]


@pytest.mark.parametrize(("order", "condition"), [(("c", "k", "x"), CAUSAL), (("c", "x", "k"), ~CAUSAL)])
def test_a_choice(graphs, order, condition):
    constants = {"c": condition, "k": np.float32(-np.inf)}
    after, _ = graphs.apply(_softmax(graphs, "Where", *order, constants=constants), RULE)
    assert graphs.ops(after) == MADE


def test_along_another_axis(graphs):
    mask = np.where(CAUSAL, np.float32(-np.inf), np.float32(0))
    after, _ = graphs.apply(_softmax(graphs, "Add", "x", "k", constants={"k": mask}, axis=2), RULE)
    assert graphs.ops(after) == MADE


def test_a_row_that_is_blocked_whole_declines(graphs):
    mask = np.where(np.eye(5, dtype=bool)[:1].T, np.float32(-1e9), np.zeros(5, np.float32))
    _, log = graphs.apply(_softmax(graphs, "Add", "x", "k", constants={"k": mask}), RULE)
    assert "whole rows" in log.of(RULE).declined[0].reason


def test_small_numbers_and_computed_masks_stay(graphs):
    mask = np.where(CAUSAL, np.float32(-100), np.float32(0))
    _, log = graphs.apply(_softmax(graphs, "Add", "x", "k", constants={"k": mask}), RULE)
    assert log.of(RULE).fired == ()
    net = graphs.Net(x=(1, 5), k=(1, 5))
    _, log = graphs.apply(net.model(net.op("Softmax", net.op("Add", "x", "k"))), RULE)
    assert log.of(RULE).fired == ()
