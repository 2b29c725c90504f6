"""What a job's process tells its sender."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_project import write_project

from nnkit.executors import THIS_HOST
from nnkit.serve import worker
from nnkit.serve.store import JobFolder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """Of a job that works in this process, which adopts nobody and returns to where it was."""
    monkeypatch.setattr(worker, "adopt_orphans", lambda: None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").mkdir()
    return JobFolder(tmp_path)


def error_of(folder: JobFolder, target: str = "onnx_qdq") -> str:
    worker.write_order(folder, target, {}, THIS_HOST)
    worker.main([str(folder.path)])
    return str(json.loads(folder.result.read_text())["error"])


def test_a_chip_and_a_precision_that_are_chosen_are_built_for(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(folder.input)
    (folder.input / "recipe.yaml").unlink()
    monkeypatch.chdir(folder.input)
    order = worker.Order("tpu:cv181x", {"targets.tpu.precision": "bf16"}, "local", None, None)
    recipe = worker.recipe_of(order)
    assert list(recipe.targets) == ["tpu"]
    (options,) = recipe.targets.values()
    assert (options.chip, options.precision) == ("cv181x", "bf16")


def test_weights_in_a_file_that_was_not_sent_are_asked_for_by_its_name(folder: JobFolder) -> None:
    weight = numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 8, 8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "net", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder.input / "digits.onnx"
    onnx.save(model, path, save_as_external_data=True, location="digits.onnx.data", size_threshold=0)
    (folder.input / "digits.onnx.data").unlink()
    assert error_of(folder) == "digits.onnx keeps its weights in digits.onnx.data: send that file too"
