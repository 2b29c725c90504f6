"""Gates that the float network itself fails: the run and the sweep say so, and what to look at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from mistakes import ended, told
from onnx import TensorProto, helper, numpy_helper

RECIPE = """\
nnkit: 1
name: NAME
model:
  path: net.onnx
  inputs: {x: {calibration: {images: 'c*/*.npy'}}}
targets: {onnx_qdq: {}}
verify:
  images: 'c*/*.npy'
  task: {kind: classification, labels: parent_folder}
  gates: {top1_accuracy: 0.75}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network that answers the first of two classes, with as many inputs of each: half are right."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    weights = {
        "w": rng.normal(0.0, 0.1, (2, 3, 4, 4)).astype(np.float32),
        "b": np.array([9.0, -9.0], np.float32),
    }
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], name="conv")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 1, 1])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "net.onnx")
    for folder in ("cat", "cow"):
        Path(folder).mkdir()
        for index in range(4):
            np.save(Path(folder, f"{index}.npy"), rng.normal(0.0, 1.0, (1, 3, 4, 4)).astype(np.float32))
    return tmp_path


def test_a_run_says_that_the_float_network_fails(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("recipe.yaml").write_text(RECIPE.replace("NAME", "net"))
    code, said = ended(("run", "recipe.yaml", "--no-cache"), monkeypatch, capsys)
    told(code, said)
    assert code == 1
    assert "the float network itself has top1_accuracy 0.5, below 0.75" in said
    assert "fix: quantisation is not the cause: look at mean, scale, color" in said
    assert "nnkit diagnose" not in said


def test_a_sweep_says_that_no_build_can_pass(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("first", "second"):
        Path(f"{name}.yaml").write_text(RECIPE.replace("NAME", name))
    code, said = ended(("run", "first.yaml", "second.yaml", "--no-cache"), monkeypatch, capsys)
    told(code, said)
    assert code == 1
    assert "fix: no build can pass, as the float network itself has top1_accuracy 0.5, below 0.75: " in said
