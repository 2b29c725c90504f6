"""A network alone, without pictures: floats are built and compared on drawn inputs, integers are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from nnkit_command import run_nnkit
from small_project import write_project


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`net.onnx`, and pictures in `images`."""
    write_project(tmp_path, images=4).unlink()
    return tmp_path


def test_floats_need_no_pictures_and_what_is_not_shown_is_said(folder: Path) -> None:
    done = run_nnkit("run", "net.onnx", "-t", "ansi_c", "--set", "targets.ansi_c.precision=float32", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "on 16 drawn inputs" in done.stdout
    said = "accuracy on real data and the ranges of real values are not"
    build = folder / "out/net/ansi_c"
    report = json.loads((build / "report.json").read_text())
    assert report["verify"]["float_vs_program"]["drawn"] == {"x": "pixels 0..255"}
    assert report["calibration"]["images"] == 0
    for text in (done.stdout, *report["doubts"], (build / "report.html").read_text()):
        assert said in text
    session = onnxruntime.InferenceSession(folder / "net.onnx", providers=["CPUExecutionProvider"])
    (output,) = session.get_outputs()
    given = np.load(build / "verify/0_x_float.npy")
    (kept,) = (np.load(path) for path in (build / "verify").glob("0_*.npy") if not path.name.startswith("0_x"))
    np.testing.assert_allclose(
        kept.ravel(), session.run([output.name], {"x": given})[0].ravel(), rtol=1e-4, atol=1e-5
    )


def test_integers_without_pictures_are_refused_with_a_remedy_that_works(folder: Path) -> None:
    command = ("run", "net.onnx", "--target", "onnx_qdq", "--set", "verify.gates={}")
    done = run_nnkit(*command, cwd=folder)
    assert done.returncode == 2
    assert "no calibration images for input 'x'" in done.stderr
    assert "--images DIR" in done.stderr
    assert run_nnkit(*command, "--images", "images", cwd=folder).returncode == 0
    assert run_nnkit("plan", "out/net.yaml", cwd=folder).returncode == 0


def test_a_network_alone_is_planned_and_checked_for_a_chip(folder: Path) -> None:
    planned = run_nnkit("plan", "net.onnx", "--target", "cv181x", cwd=folder)
    assert (planned.returncode, "plan for tpu" in planned.stdout) == (0, True), planned.stderr
    without = run_nnkit("check", "net.onnx", "--target", "hi3516dv300", cwd=folder)
    assert (without.returncode, "net.onnx (its first recipe)" in without.stderr) == (2, True), without.stderr
    given = ("--target", "hi3516dv300", "--images", "images")
    assert run_nnkit("check", "net.onnx", *given, cwd=folder).returncode == 0
    assert [path.name for path in folder.iterdir() if path.suffix == ".yaml"] == []
