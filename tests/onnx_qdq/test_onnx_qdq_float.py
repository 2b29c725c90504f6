"""Operators without integers stay in float between QuantizeLinear and DequantizeLinear, and the report says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from nnkit.cli import app
from nnkit.errors import LayersNotTakenError


def network(folder: Path, last: list[Any], shape: tuple[int, ...], constants: dict[str, Any] | None = None) -> None:
    """A convolution [1, 4, 6, 6] of noise, and `last` from "c" to "y", with a recipe for it."""
    generator = np.random.default_rng(3)
    arrays = {"w": generator.normal(0, 0.5, (4, 2, 1, 1)).astype(np.float32), **(constants or {})}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), *last],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 2, 6, 6))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in arrays.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "net.onnx"
    )
    for index in range(4):
        np.save(folder / f"x_{index}.npy", generator.normal(0, 1, (1, 2, 6, 6)).astype(np.float32))


def built(folder: Path, options: str = "{}", target: str = "onnx_qdq") -> Any:
    (folder / "recipe.yaml").write_text(
        "nnkit: 1\nname: net\nmodel: {path: net.onnx, inputs: {x: {calibration: {images: 'x_[0-2].npy'}}}}\n"
        f"targets: {{{target}: {options}}}\nverify: {{images: x_3.npy}}\n"
    )
    return CliRunner().invoke(app, ["run", str(folder / "recipe.yaml"), "--out", str(folder / "out")])


LOG_SOFTMAX = [helper.make_node("LogSoftmax", ["c"], ["y"], name="scores", axis=1)]
WITH_CONSTANTS = [  # neither Sin nor CumSum has integers; CumSum reads a constant
    helper.make_node("Sin", ["c"], ["s"], name="wave"),
    helper.make_node("CumSum", ["s", "axis"], ["t"], name="sums"),
    helper.make_node("Relu", ["t"], ["y"], name="last"),
]
AXIS = {"axis": np.array(2, np.int64)}


@pytest.mark.parametrize(
    ("last", "constants", "options", "note"),
    [
        (LOG_SOFTMAX, {}, "{}", "1 layer in float, between integers: scores (LogSoftmax)"),
        (LOG_SOFTMAX, {}, "{precision: int16}", "1 layer in float, between integers: scores (LogSoftmax)"),
        (WITH_CONSTANTS, AXIS, "{}", "2 layers in float, between integers: wave (Sin), sums (CumSum)"),
    ],
)
def test_they_are_computed_in_float_and_named(
    tmp_path: Path, last: list[Any], constants: dict[str, Any], options: str, note: str
) -> None:
    network(tmp_path, last, (1, 4, 6, 6), constants)
    ran = built(tmp_path, options)
    assert ran.exit_code == 0, ran.output
    report = json.loads((tmp_path / "out/net/onnx_qdq/report.json").read_text())
    assert note in report["quantization_notes"]
    (compared,) = report["verify"]["program_vs_artifact"]
    assert compared["values"] > 0
    assert compared["mismatches"] == 0
    # The artifact against the network itself, by ONNX Runtime alone.
    path = tmp_path / "out/net/onnx_qdq/artifact/model.onnx"
    feeds = {"x": np.load(tmp_path / "x_3.npy")}
    (y,) = onnxruntime.InferenceSession(str(path)).run(None, feeds)
    (expected,) = onnxruntime.InferenceSession(str(tmp_path / "net.onnx")).run(None, feeds)
    error = 10 * np.log10(np.square(expected).sum() / np.square(y - expected).sum())
    assert error > (60 if "int16" in options else 25)


def test_what_cannot_stand_between_integers_is_refused_with_the_first_reason(tmp_path: Path) -> None:
    last = [helper.make_node("IsNaN", ["c"], ["n"], name="odd"), helper.make_node("Not", ["n"], ["b"], name="no")]
    last.append(helper.make_node("Cast", ["b"], ["y"], name="numbers", to=1))
    network(tmp_path, last, (1, 4, 6, 6))
    ran = built(tmp_path)
    assert isinstance(ran.exception, LayersNotTakenError)
    assert "odd (IsNaN): op IsNaN is not supported" in str(ran.exception)


def test_other_targets_of_affine_integers_refuse_them(tmp_path: Path) -> None:
    network(tmp_path, [helper.make_node("Sin", ["c"], ["y"], name="wave")], (1, 4, 6, 6))
    ran = built(tmp_path, "{precision: int8, scheme: affine}", "gap8")
    assert isinstance(ran.exception, LayersNotTakenError)
    assert "wave (Sin): op Sin is not supported" in str(ran.exception)
