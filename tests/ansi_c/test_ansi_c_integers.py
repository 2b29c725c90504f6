"""Integer builds of the ansi_c target: equal in every value to the simulator, which ONNX Runtime checks elsewhere."""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ansi_c_library import SANITIZERS
from small_project import make_build, write_project
from typer.testing import CliRunner

from nnkit import pipeline
from nnkit.api.building import run_build
from nnkit.boards import BOARDS
from nnkit.builds import open_build
from nnkit.cli import app
from nnkit.errors import DoesNotFitError, RecipeError
from nnkit.program.affine import AffineTensor
from nnkit.program.inputs import stress_inputs
from nnkit.simulate import simulate
from nnkit.verify.artifact import compare_artifact
from nnkit_ansi_c.integer_runner import IntegerHostRunner
from nnkit_ansi_c.runner import described


def built(folder: Path, options: str, recipe: str = "") -> tuple[dict[str, Any], Path]:
    path = write_project(folder)
    path.write_text(path.read_text().replace("gap8: {}", f"ansi_c: {options}") + recipe)
    outcome, _ = run_build(make_build(path, target="ansi_c"), folder / "out")
    report: dict[str, Any] = json.loads((outcome.folder / "report.json").read_text())
    return report, outcome.folder


@pytest.fixture(scope="module")
def int8_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("int8"), "{precision: int8, weights: arrays}")[1]


@pytest.mark.parametrize("precision", ["int8", "a16w8", "int16"])
def test_a_build_is_equal_to_its_program_in_every_value(tmp_path: Path, precision: str) -> None:
    report, folder = built(tmp_path, f"{{precision: {precision}}}")
    assert report["status"] == "ok"
    (verdict,) = report["verify"]["program_vs_artifact"]
    assert (verdict["how"], verdict["contract"], verdict["mismatches"]) == ("host", "exact", 0)
    assert verdict["values"] > 1000
    program = open_build(folder).program
    runner = IntegerHostRunner(flags=SANITIZERS)
    given = stress_inputs(program, 2)
    for values, result in zip(given, runner.run(folder / "artifact", program, given, trace=True), strict=True):
        expected = simulate(program, values)
        assert {op.output for op in program.ops} == set(result.tensors)
        for tensor, stored in result.tensors.items():
            assert np.array_equal(stored, expected[tensor]), tensor
    weights = next((folder / "artifact").glob("*_weights.bin")).stat().st_size
    assert report["details"]["weight_bytes"] == weights


def test_the_search_for_16_bit_layers_and_a_correction_end_in_the_same_arithmetic(tmp_path: Path) -> None:
    path = write_project(tmp_path, images=8)
    text = path.read_text().replace("gap8: {}", "ansi_c: {precision: int8, correction_images: 8}")
    text = text.replace("{cosine: 0.99, sqnr_db: 20, max_abs: 10}", "{sqnr_db: 60}")
    path.write_text(text + "calibration: {method: mse, corrections: [bias_correction]}\ntags: {hp: auto}\n")
    outcome = pipeline.run(make_build(path, target="ansi_c"), tmp_path / "out")
    report = json.loads((outcome.folder / "report.json").read_text())
    (verdict,) = report["verify"]["program_vs_artifact"]
    assert (report["status"], verdict["mismatches"]) == ("ok", 0)
    widths = {layer["formats"]["weight"][:3] for layer in report["layers"] if "weight" in layer["formats"]}
    assert widths == {"s8 ", "s16"}
    assert any(layer["formats"]["output"].startswith("u16") for layer in report["layers"])
    assert report["verify"]["float_vs_program"]["sqnr_db"] >= 60


@pytest.mark.parametrize("name", list(BOARDS))
def test_boards_are_equal_in_every_layer_and_counted(int8_build: Path, name: str) -> None:
    if (missing := BOARDS[name].missing()) is not None:
        pytest.skip(missing)
    done = CliRunner().invoke(app, ["bench", str(int8_build), "--on", name, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["on"], told["contract"], told["mismatches"]) == (name, "exact", 0)
    assert told["values"] > 1000
    assert sum(row["instructions"] for row in told["layers"]) == pytest.approx(told["instructions"], rel=0.02)
    assert 1000 < told["measured"]["code_bytes"] < 12_000


def test_strict_c_of_any_age_takes_no_warning_and_gives_the_same(int8_build: Path) -> None:
    artifact = int8_build / "artifact"
    program, sources = open_build(int8_build).program, [artifact / file for file in described(artifact)["sources"]]
    for compiler in filter(shutil.which, ("gcc", "clang")):
        runner = IntegerHostRunner(compiler, ("-O1", "-Wshadow"))
        assert compare_artifact(runner, artifact, program, stress_inputs(program, 1)).mismatches == 0
        avx2 = ("-mavx2",) if platform.machine() == "x86_64" else ()
        cpp = ("-x", "c++")
        for standard in (
            ("-std=c90", *avx2),
            ("-std=c99",),
            (*cpp, "-std=c++98", *avx2),
            (*cpp, "-std=c++11"),
        ):
            flags = (*standard, "-pedantic-errors", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsyntax-only")
            subprocess.run([compiler, *flags, *sources, artifact / "example.c"], check=True)


def test_the_example_stores_as_onnx_does_and_gives_real_numbers(tmp_path: Path, int8_build: Path) -> None:
    artifact, program = (
        shutil.copytree(int8_build / "artifact", tmp_path / "artifact"),
        open_build(int8_build).program,
    )
    subprocess.run(["make", "-s", "example"], cwd=artifact, check=True)
    (name,) = program.inputs
    (result,) = program.outputs
    source, output = program.tensors[name], program.tensors[result]
    assert isinstance(source, AffineTensor)
    assert isinstance(output, AffineTensor)
    halves = (np.arange(source.elements) % 600 - 300 + 0.5) * source.scale
    values = halves.astype(np.float32).reshape(source.shape)
    (tmp_path / "in.bin").write_bytes(values.tobytes())
    subprocess.run([artifact / "example", tmp_path / "in.bin", tmp_path / "out.bin"], check=True)
    real = np.frombuffer((tmp_path / "out.bin").read_bytes(), np.float32).reshape(output.shape)
    given = {name: source.format.quantize(values)}
    (expected,) = IntegerHostRunner().run(artifact, program, [given], trace=False)
    assert np.array_equal(real, output.format.dequantize(expected.outputs[result]).astype(np.float32))


def test_changed_weights_are_noticed(tmp_path: Path, int8_build: Path) -> None:
    artifact = shutil.copytree(int8_build / "artifact", tmp_path / "artifact")
    weights = next(artifact.glob("*_weights.c"))
    weights.write_text(re.sub(r"\{\n +-?\d+, ", "{\n123456, ", weights.read_text(), count=1))
    program = open_build(int8_build).program
    given = stress_inputs(program, 1)
    (result,) = IntegerHostRunner().run(artifact, program, given, trace=True)
    expected = simulate(program, given[0])
    assert [tensor for tensor in result.tensors if not np.array_equal(result.tensors[tensor], expected[tensor])]


def test_the_arena_has_a_limit_and_corrections_are_of_integers(tmp_path: Path) -> None:
    with pytest.raises(DoesNotFitError) as caught:
        built(tmp_path, "{precision: int8, arena: 1KiB}")
    assert "set `arena` to at least" in caught.value.remedy
    other = tmp_path / "float"
    other.mkdir()
    with pytest.raises(RecipeError, match="does not offer the correction bias_correction with these options"):
        built(other, "{}", "calibration: {corrections: [bias_correction]}\n")
