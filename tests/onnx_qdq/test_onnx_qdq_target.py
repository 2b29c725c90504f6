"""The onnx_qdq target from recipe to release; ONNX Runtime is the truth, layer by layer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.errors import RecipeError
from nnkit.trust import mark_of_report
from nnkit.verify.artifact import compare_artifact
from nnkit_onnx_qdq.runner import OnnxRuntimeRunner


def recipe(folder: Path, options: str = "{}", calibration: str = "{method: mse}", images: int = 8) -> Path:
    path = write_project(folder, images=images)
    text = path.read_text().replace("gap8: {}", f"onnx_qdq: {options}")
    path.write_text(text.replace("release:", f"calibration: {calibration}\nrelease:"))
    return path


def built(folder: Path, **more: Any) -> tuple[dict[str, Any], Path]:
    outcome = pipeline.run(make_build(recipe(folder, **more), target="onnx_qdq"), folder / "out")
    report: dict[str, Any] = json.loads((outcome.folder / "report.json").read_text())
    return report, outcome.folder


def test_every_layer_agrees_with_onnx_runtime_within_one_unit(tmp_path: Path) -> None:
    report, folder = built(tmp_path)
    assert report["status"] == "ok"
    (verdict,) = report["verify"]["program_vs_artifact"]
    assert (verdict["how"], verdict["contract"], verdict["mismatches"]) == ("onnxruntime", "bounded", 0)
    assert verdict["max_difference"] <= 1
    assert verdict["values"] > 1000
    assert report["outputs"][0]["scale"]
    # Its own session, default optimisations on: the file is a plain model.
    session = onnxruntime.InferenceSession(folder / "artifact" / "model.onnx", providers=["CPUExecutionProvider"])
    given = np.load(next((folder / "verify").glob("0_*_float.npy")))
    (found,) = session.run(None, {session.get_inputs()[0].name: given})
    assert found.shape == (1, *report["outputs"][0]["shape"])


def test_a_model_that_computes_something_else_is_found_and_the_layer_named(tmp_path: Path) -> None:
    _, folder = built(tmp_path)
    from nnkit.builds import open_build
    from nnkit.program.inputs import stress_inputs

    path = folder / "artifact" / "model.onnx"
    model = onnx.load(path)
    weights = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT32 and t.dims]
    damaged = numpy_helper.to_array(weights[0]).copy()
    damaged += 1 << 16
    weights[0].CopyFrom(numpy_helper.from_array(damaged, weights[0].name))
    path.write_bytes(model.SerializeToString())
    program = open_build(folder).program
    verdict = compare_artifact(OnnxRuntimeRunner(), folder / "artifact", program, stress_inputs(program, 1))
    assert verdict.mismatches > 0
    assert program.ops[0].name in verdict.first_difference


@pytest.mark.parametrize("options", ["{weights: per_tensor}", "{symmetric_activations: true}", "{precision: int16}"])
def test_schemes_of_the_recipe_reach_the_model(tmp_path: Path, options: str) -> None:
    report, folder = built(tmp_path, options=options)
    model = onnx.load(folder / "artifact" / "model.onnx")
    kinds = {t.data_type for t in model.graph.initializer}
    assert report["verify"]["program_vs_artifact"][0]["mismatches"] == 0
    if "precision" in options:
        assert onnx.TensorProto.UINT16 in kinds
        assert onnx.TensorProto.INT16 in kinds
        assert onnx.TensorProto.INT8 not in kinds
        assert report["verify"]["float_vs_program"]["sqnr_db"] > 50
    elif "per_tensor" in options:
        assert "per channel" not in report["layers"][0]["formats"]["weight"]
    else:
        assert report["outputs"][0]["signed"]
        assert onnx.TensorProto.UINT8 not in kinds


def test_corrections_are_measured_and_noted(tmp_path: Path) -> None:
    report, _ = built(
        tmp_path, calibration="{method: mse, corrections: [equalize, bias_correction, adaround]}", images=12
    )
    text = "\n".join(report["quantization_notes"])
    assert "bias correction" in text
    assert "adaptive rounding" in text
    assert "equalisation" in text


def test_corrections_need_images(tmp_path: Path) -> None:
    build = make_build(recipe(tmp_path, calibration="{corrections: [bias_correction]}", images=3), target="onnx_qdq")
    with pytest.raises(RecipeError, match="corrections are measured on calibration images"):
        pipeline.run(build, tmp_path / "out")


def test_the_command_line_simulates_and_compares_such_builds(tmp_path: Path) -> None:
    _, folder = built(tmp_path)
    (folder / "run.json").write_text(json.dumps({"made_here": mark_of_report(folder)}))
    command = [sys.executable, "-m", "nnkit", "simulate", folder, "--input", tmp_path / "images" / "0.png"]
    outputs = []
    for on in ("program", "onnxruntime", "float"):
        done = subprocess.run(
            [*command, "--on", on, "--output", tmp_path / f"{on}.npy"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        outputs.append(np.load(tmp_path / f"{on}.npy").ravel())
    assert np.corrcoef(outputs[0], outputs[2])[0, 1] > 0.99
    assert np.corrcoef(outputs[0], outputs[1])[0, 1] > 0.9999
