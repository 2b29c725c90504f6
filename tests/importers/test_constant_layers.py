"""Layers that compute from constants alone are folded where onnxsim cannot be used, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper

from nnkit.importers import import_onnx

RNG = np.random.default_rng(7)


def _outputs(model: bytes, x: NDArray[np.float32]) -> list[Any]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": x}))


@pytest.fixture(autouse=True)
def no_onnxsim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes that are started find a module of that name that fails."""
    folder = tmp_path / "fake"
    folder.mkdir()
    (folder / "onnxsim.py").write_text("raise ImportError('not installed')")
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_a_convolution_of_constants_is_a_constant(make_model: Any, save: Any) -> None:
    nodes = [
        helper.make_node("Conv", ["k", "w"], ["map"], name="of_constants", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["map"], ["positive"], name="behind_it"),
        helper.make_node("Mul", ["x", "positive"], ["y"], name="product"),
    ]
    constants = {
        "k": RNG.normal(size=(1, 2, 24, 24)).astype(np.float32),  # large enough to be set aside
        "w": RNG.normal(size=(4, 2, 3, 3)).astype(np.float32),
    }
    model = make_model(nodes, constants, inputs={"x": [1, 4, 24, 24]})
    imported = import_onnx(save(model))
    assert [node.op_type for node in imported.model.proto().graph.node] == ["Mul"]
    assert "2 layers that compute from constants alone are folded" in imported.notes
    x = RNG.normal(size=(1, 4, 24, 24)).astype(np.float32)
    (expected,) = _outputs(model.SerializeToString(), x)
    (actual,) = _outputs(imported.model.onnx_bytes, x)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6)


def test_stored_integers_stay_with_the_layer_that_reads_them(make_model: Any, save: Any) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale"], ["w"], name="weights"),
        helper.make_node("Conv", ["x", "w"], ["y"], name="conv", kernel_shape=[1, 1]),
    ]
    constants = {"q": RNG.integers(-100, 100, (4, 4, 1, 1)).astype(np.int8), "scale": np.float32(0.1)}
    imported = import_onnx(save(make_model(nodes, constants)))
    assert "DequantizeLinear" in [node.op_type for node in imported.model.proto().graph.node]


def test_integers_with_scales_of_blocks_are_weights_of_a_float_network(make_model: Any, save: Any) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "scale"], ["w"], axis=0, block_size=4),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    integers, scales = RNG.integers(-100, 100, (8, 3)).astype(np.int8), RNG.uniform(0.01, 0.1, (2, 3))
    constants = {"q": integers, "scale": scales.astype(np.float32)}
    model = make_model(nodes, constants, opset=21, ir_version=10, inputs={"x": [1, 8]})
    imported = import_onnx(save(model)).model
    assert [node.op_type for node in imported.proto().graph.node] == ["MatMul"]
    x = RNG.normal(size=(1, 8)).astype(np.float32)
    (actual,) = _outputs(imported.onnx_bytes, x)
    expected = x @ (integers * np.repeat(constants["scale"], 4, axis=0))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
