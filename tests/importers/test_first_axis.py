"""Inputs whose first axis is not one image: the message says what the axis is, and its remedy is taken."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnkit.errors import ModelError
from nnkit.importers import import_onnx

Build = Callable[[list[int]], onnx.ModelProto]


def _model(nodes: list[onnx.NodeProto], inputs: dict[str, list[int]], **constants: Any) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _gru(layers: int) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "w": rng.standard_normal((layers, 9, 4)).astype(np.float32),
        "r": rng.standard_normal((layers, 9, 3)).astype(np.float32),
    }


def _time_major(shape: list[int]) -> onnx.ModelProto:
    nodes = [helper.make_node("GRU", ["x", "w", "r"], ["y", ""], name="gru", hidden_size=3)]
    if shape[0] == 1:
        nodes[0].input[0] = "turned"
        nodes.insert(0, helper.make_node("Transpose", ["x"], ["turned"], name="turn", perm=[1, 0, 2]))
    return _model(nodes, {"x": shape}, **_gru(1))


def _state(shape: list[int]) -> onnx.ModelProto:
    gru = helper.make_node(
        "GRU", ["steps", "w", "r", "", "", "x"], ["y", ""], name="gru", hidden_size=3, direction="bidirectional"
    )
    if shape[0] == 1:
        gru.input[5] = "states"
        join = helper.make_node("Concat", ["x", "other"], ["states"], name="join", axis=0)
        return _model([join, gru], {"x": shape, "other": shape, "steps": [1, 1, 4]}, **_gru(2))
    return _model([gru], {"x": shape, "steps": [1, 1, 4]}, **_gru(2))


def _values(shape: list[int]) -> onnx.ModelProto:
    return _model([helper.make_node("Relu", ["x"], ["y"], name="relu")], {"x": shape})


CASES = {
    "time first": (_time_major, [12, 1, 4], "has the time first (12 steps)", [1, 12, 4]),
    "state": (_state, [2, 1, 3], "is the first state of 2 layers or directions", [1, 1, 3]),
    "vector": (_values, [16], "has no axis for images", [1, 16]),
    "unknown": (_values, [6, 1, 5], "begins with an axis of 6", [1, 6, 1, 5]),
    "images": (_values, [4, 3], "has batch 4", [1, 3]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_first_axis_is_and_the_remedy_is_taken(case: str, save: Any) -> None:
    build, shape, reason, instead = CASES[case]
    model = build(shape)
    with pytest.raises(ModelError) as caught:
        import_onnx(save(model))
    assert reason in caught.value.reason
    assert case == "images" or "batch 12" not in caught.value.reason
    told = re.search(r"\[1, ([0-9, ]+|1, units)\]", caught.value.remedy)
    assert case == "images" or told is not None
    if told is not None and "units" not in told[0]:
        assert [int(size) for size in re.findall(r"\d+", told[0])] == instead
    assert import_onnx(save(build(instead))).model.inputs[0].shape == tuple(instead)
