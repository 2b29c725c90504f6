"""nnkit from Python: the same builds as from the command line, typed; and `import nnkit` stays light."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from small_project import RECIPE, write_project

import nnkit
from nnkit.errors import RecipeError, UsageError, UserFileError


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nnkit.BuildResult]:
    """A project, and a build of it for GAP8."""
    folder = tmp_path_factory.mktemp("api")
    write_project(folder, RECIPE.replace("gap8: {}", "gap8: {}\n  gap8@int8: {precision: int8}"))
    switches = nnkit.Switches(cache=False, emulate=False)
    (result,) = nnkit.run(folder / "recipe.yaml", targets="gap8@int8", out=folder / "out", switches=switches)
    return folder, result


def test_importing_nnkit_is_light() -> None:
    script = (
        "import sys, nnkit; assert {*nnkit.__all__} <= {*dir(nnkit)}\n"
        "print(sorted({'numpy', 'onnx', 'pydantic', 'typer', 'nnkit.api'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert all(hasattr(nnkit, name) for name in nnkit.__all__)
    with pytest.raises(AttributeError, match="no attribute 'biuld'"):
        nnkit.biuld  # type: ignore[attr-defined]  # noqa: B018


def test_a_result_says_what_the_report_says(built: tuple[Path, nnkit.BuildResult]) -> None:
    folder, result = built
    assert (result.name, result.target, result.folder) == ("small", "gap8@int8", folder / "out/small/gap8@int8")
    report = json.loads((result.folder / "report.json").read_text())
    assert result.report == report
    assert result.status == report["status"] == "ok"
    assert (result.passed, result.released) == (True, True)
    assert result.accuracy.cosine == report["verify"]["float_vs_program"]["cosine"]
    assert result.memory["l2"].peak_bytes == report["memory"]["l2"]["peak_bytes"]
    assert sum(layer.macs for layer in result.layers) == result.macs
    assert [layer.name for layer in result.layers] == [row["name"] for row in report["layers"]]
    assert {run.how: run.mismatches for run in result.artifacts if run.contract == "exact"} == {"host": 0}
    assert all(gate.passed for gate in result.gates)
    assert result.package == result.folder / "small-1.2.3-gap8@int8.nnpkg"
    assert result.page.read_text().startswith("<!")
    assert repr(result).startswith("BuildResult(name='small', target='gap8@int8', status='ok', ")
    assert len(repr(result)) < 2_000  # a notebook shows it behind a cell
    with pytest.raises(FrozenInstanceError):
        result.status = "ok"  # type: ignore[misc]


def test_a_build_is_loaded_again_and_runs_single_inputs(built: tuple[Path, nnkit.BuildResult]) -> None:
    folder, result = built
    again = nnkit.load_build(result.folder)
    assert (again.layers, again.gates, again.memory) == (result.layers, result.gates, result.memory)
    image = folder / "images/0.png"
    outputs = {on: again.simulate({"x": image}, on=on) for on in ("float", "program", "host")}
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"))
    stored = np.load(result.folder / "verify/0_x.npy")
    pixels = stored.astype(np.float32)  # the camera's pixels go in as they are
    (expected,) = session.run(None, {"x": pixels.reshape(session.get_inputs()[0].shape)})
    np.testing.assert_allclose(outputs["float"].ravel(), expected.ravel(), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(outputs["program"], outputs["host"])
    np.testing.assert_array_equal(again.simulate({"x": pixels.reshape(1, 1, 40, 40)}), outputs["program"])
    with pytest.raises(UsageError, match="no input 'y'"):
        again.simulate({"y": image})
    with pytest.raises(UsageError, match="nothing for input x"):
        again.simulate({})
    with pytest.raises(UserFileError, match=r"shape \[3\]"):
        again.simulate({"x": np.zeros(3)})
    with pytest.raises(UserFileError, match="not a build"):
        nnkit.load_build(folder)


def test_a_plan_is_typed_and_takes_settings(built: tuple[Path, nnkit.BuildResult]) -> None:
    folder, result = built
    planned, _ = nnkit.plan(
        folder / "recipe.yaml", targets=["gap8"], settings={"targets.gap8.precision": "int8"}, cache=False
    )
    assert planned.calibrated
    assert [layer.name for layer in planned.layers] == [layer.name for layer in result.layers]
    assert [layer.output_format for layer in planned.layers] == [layer.output_format for layer in result.layers]
    assert planned.memory == result.memory
    assert planned.data["target"] == "gap8"
    with pytest.raises(RecipeError, match="int16 or int8") as caught:
        nnkit.plan(folder / "recipe.yaml", settings={"targets.gap8.precision": 7})
    assert caught.value.where == "--set targets.gap8.precision"


def test_a_model_runs_without_a_recipe(tmp_path: Path) -> None:
    write_project(tmp_path).unlink()
    (result,) = nnkit.run(
        tmp_path / "net.onnx",
        targets=["onnx_qdq"],
        images=tmp_path / "images",
        out=tmp_path / "out",
        settings={"verify.gates": {"cosine": 0.5}},
        switches=nnkit.Switches(cache=False),
    )
    assert (result.target, result.gates[0].limit) == ("onnx_qdq", 0.5)


def test_a_build_that_fails_its_gates_is_a_result(tmp_path: Path) -> None:
    write_project(tmp_path)
    (result,) = nnkit.run(
        tmp_path / "recipe.yaml",
        out=tmp_path / "out",
        settings={"verify.gates.cosine": 1.0},
        switches=nnkit.Switches(cache=False, emulate=False),
    )
    assert (result.status, result.passed, result.package) == ("gate_failed", False, None)
    assert result.folder == tmp_path / "out/small/gap8.failed"


def test_the_page_s_example_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/python_api.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    write_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    assert names["result"].shape == (24,)


def test_the_page_lists_every_field_of_a_result() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/python_api.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    for kind in (nnkit.BuildResult, nnkit.Layer, nnkit.Accuracy, nnkit.MemoryUse, nnkit.ArtifactRun, nnkit.Plan):
        assert {field.name for field in fields(kind)} <= named, kind
