"""Inputs whose first axis is not one image: the message says what the axis is, and its remedy is taken."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from nnkit_command import run_nnkit
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
        inside = helper.make_node("Squeeze", ["x", "front"], ["states"], name="inside")
        return _model([inside, gru], {"x": shape, "steps": [1, 1, 4]}, front=np.array([0]), **_gru(2))
    return _model([gru], {"x": shape, "steps": [1, 1, 4]}, **_gru(2))


def _values(shape: list[int]) -> onnx.ModelProto:
    return _model([helper.make_node("Relu", ["x"], ["y"], name="relu")], {"x": shape})


CASES = {
    "time first": (_time_major, [12, 1, 4], "has the time first (12 steps)", [1, 12, 4]),
    "state": (_state, [2, 1, 3], "is recurrent state, which the caller hands over from call to call", [1, 2, 1, 3]),
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
    told = re.search(r"\[1, [0-9, ]+\]", caught.value.remedy)
    assert case == "images" or told is not None
    if told is not None:
        assert [int(size) for size in re.findall(r"\d+", told[0])] == instead
    assert import_onnx(save(build(instead))).model.inputs[0].shape == tuple(instead)


def _joined_states() -> onnx.ModelProto:
    """h and c of an LSTM in one input [2, 1, 3] and one output, as voice detectors have them."""
    rng = np.random.default_rng(4)
    nodes = [
        helper.make_node("Gather", ["state", "zero"], ["h"], name="h", axis=0),
        helper.make_node("Gather", ["state", "one"], ["c"], name="c", axis=0),
        helper.make_node("Unsqueeze", ["h", "first"], ["h0"], name="h0"),
        helper.make_node("Unsqueeze", ["c", "first"], ["c0"], name="c0"),
        helper.make_node("LSTM", ["x", "w", "r", "", "", "h0", "c0"], ["y", "hn", "cn"], name="lstm", hidden_size=3),
        helper.make_node("Concat", ["hn", "cn"], ["next"], name="join", axis=0),
    ]
    model = _model(
        nodes,
        {"x": [1, 1, 4], "state": [2, 1, 3]},
        zero=np.array(0),
        one=np.array(1),
        first=np.array([0]),
        w=rng.standard_normal((1, 12, 4)).astype(np.float32),
        r=rng.standard_normal((1, 12, 3)).astype(np.float32),
    )
    model.graph.output.append(helper.make_tensor_value_info("next", TensorProto.FLOAT, [2, 1, 3]))
    return model


def test_states_in_one_input_are_built_after_the_script_of_the_remedy(tmp_path: Path) -> None:
    onnx.save(_joined_states(), tmp_path / "net.onnx")
    with pytest.raises(ModelError) as caught:
        import_onnx(tmp_path / "net.onnx")
    assert "'lstm' (LSTM) begins with it" in caught.value.reason
    assert "docs/operators.md#state-from-outside" in caught.value.remedy
    page = (Path(__file__).parents[2] / "docs/operators.md").read_text().partition("## State from outside")[2]
    script = page.partition("```python\n")[2].partition("```")[0]
    command = [sys.executable, "-c", script, "net.onnx", "out.onnx", "state", "next"]
    subprocess.run(command, cwd=tmp_path, check=True)
    rng = np.random.default_rng(5)
    x, state = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 1, 4), (2, 1, 3)))
    before = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(None, {"x": x, "state": state})
    after = onnxruntime.InferenceSession(tmp_path / "out.onnx").run(None, {"x": x, "state": state[None]})
    np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_array_equal(after[1], before[1][None])
    done = run_nnkit("run", "out.onnx", "-t", "ansi_c", "--set", "targets.ansi_c.precision=float32", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    elsewhere = run_nnkit("check", "out.onnx", "-t", "gap8", cwd=tmp_path)
    assert elsewhere.returncode == 3
    assert "its first state is given from outside, at input 'state'" in elsewhere.stderr
    assert "targets: ansi_c: take the network as it is" in elsewhere.stderr
