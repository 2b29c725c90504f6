"""QDQ networks that end in float, as exporters leave them: the last layers have ranges of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit_onnx_qdq.runner import FILE

TAILS = {
    "Gemm": [helper.make_node("Gemm", ["xd", "wd", "b"], ["y"], name="fc", transB=1)],
    "MatMul": [helper.make_node("MatMul", ["xd", "wt"], ["y"], name="product")],
    "Softmax": [
        helper.make_node("Gemm", ["xd", "wd", "b"], ["scores"], name="fc", transB=1),
        helper.make_node("Softmax", ["scores"], ["y"], name="shares"),
    ],
    "Gemm, Relu, Gemm": [
        helper.make_node("Gemm", ["xd", "wd", "b"], ["inner"], name="fc", transB=1),
        helper.make_node("Relu", ["inner"], ["cut"], name="relu"),
        helper.make_node("Gemm", ["cut", "last"], ["y"], name="last_fc", transB=1),
    ],
}


def _network(tail: str) -> onnx.ModelProto:
    rng = np.random.default_rng(11)
    constants = {
        "s": np.float32(0.02),
        "z": np.int8(0),
        "ws": np.float32(0.004),
        "w": rng.integers(-127, 128, (5, 12)).astype(np.int8),
        "wq": rng.integers(-127, 128, (12, 5)).astype(np.int8),
        "b": rng.normal(0.0, 0.5, 5).astype(np.float32),
        "last": rng.normal(0.0, 0.5, (4, 5)).astype(np.float32),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["xd"], name="d"),
        helper.make_node("DequantizeLinear", ["w", "ws", "z"], ["wd"], name="dw"),
        helper.make_node("DequantizeLinear", ["wq", "ws", "z"], ["wt"], name="dwq"),
        *TAILS[tail],
    ]
    read = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        [node for node in nodes if set(node.output) & (read | {"y"})],
        "tail",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4 if tail.startswith("Gemm, ") else 5])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name in read],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _run(model: Path, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # its own integers saturate
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: x})[0])


@pytest.mark.parametrize("tail", TAILS)
def test_a_float_tail_is_quantised_with_its_own_ranges(tail: str, tmp_path: Path) -> None:
    onnx.save(_network(tail), tmp_path / "net.onnx")
    inputs = np.random.default_rng(2).uniform(-2.5, 2.5, (12, 1, 12)).astype(np.float32)
    for index, x in enumerate(inputs):
        np.save(tmp_path / f"x{index}.npy", x)
    (tmp_path / "recipe.yaml").write_text(
        "nnkit: 1\nname: net\nmodel: {path: net.onnx, inputs: {x: {calibration: {images: 'x*.npy'}}}}\n"
        "targets: {onnx_qdq: {}}\n"
    )
    done = CliRunner().invoke(
        app, ["run", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "out"), "--no-cache"]
    )
    assert done.exit_code == 0, done.output
    wanted = np.stack([_run(tmp_path / "net.onnx", x) for x in inputs])
    found = np.stack([_run(tmp_path / "out" / "net" / "onnx_qdq" / "artifact" / FILE, x) for x in inputs])
    step = (wanted.max() - min(wanted.min(), 0.0)) / 255.0  # of 8 bits over what calibration saw
    assert np.abs(found.reshape(wanted.shape) - wanted).max() <= 3.0 * step
    assert len(np.unique(found)) > 20
