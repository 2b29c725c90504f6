"""The correction `room_for_unseen` in a run: by default, asked for, declined, and where it cannot be."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_project import make_build

from nnkit import pipeline
from nnkit.errors import RecipeError
from nnkit.quantize.judge import program_sqnr_db
from nnkit.recipe.sections import Calibration
from nnkit.report.calibration_table import calibration_table
from nnkit.report.progress import Progress
from nnkit.samples import Sample
from nnkit.target import Quantization


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A perceptron of 16, 32 and 5 numbers, with four random inputs to calibrate on."""
    random = np.random.default_rng(8)
    weights = {"w1": (16, 32), "w2": (32, 5)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"]),
            helper.make_node("Tanh", ["h"], ["t"]),
            helper.make_node("MatMul", ["t", "w2"], ["y"]),
        ],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 16))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 5))],
        [
            numpy_helper.from_array(random.normal(0, 0.3, shape).astype(np.float32), name)
            for name, shape in weights.items()
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    for index in range(4):
        np.save(tmp_path / f"x_{index}.npy", random.normal(0, 1, (1, 16)).astype(np.float32))
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "nnkit: 1\nname: perceptron\n"
        "model: {path: net.onnx, inputs: {x: {calibration: {images: 'x_*.npy'}}}}\n"
        "targets: {tpu: {chip: bm1684x}}\n"
    )
    return path


def _with(recipe: Path, calibration: str) -> Path:
    recipe.write_text(f"{recipe.read_text()}calibration: {calibration}\n")
    return recipe


def _unseen() -> list[Sample]:
    random = np.random.default_rng(9)
    return [Sample("made", {"x": random.normal(0, 1, (1, 16)).astype(np.float32)}) for _ in range(200)]


def test_inputs_that_nobody_saw_are_nearer_by_default(recipe: Path) -> None:
    prepared = pipeline.prepare(make_build(recipe, target="tpu"))
    declined = pipeline.prepare(make_build(_with(recipe, "{corrections: []}"), target="tpu"))
    assert set(prepared.statistics.room) == {"x", "h", "t", "y"}
    assert not declined.statistics.room
    model = prepared.settled.lowered.model
    with_it, without = (program_sqnr_db(model, each.program, _unseen()) for each in (prepared, declined))
    assert with_it > without + 3.0


def test_it_is_told(recipe: Path) -> None:
    told = StringIO()
    pipeline.prepare(replace(make_build(recipe, target="tpu"), progress=Progress(verbose=True, stream=told)))
    (note,) = [line for line in told.getvalue().splitlines() if "room for what was not seen" in line]
    # y: 4 inputs of 5 numbers, 1.6385 (see the factor by hand)
    assert note.endswith("few numbers of 4 of 4 values; their ranges are up to 1.64 times as wide ('y', 20 numbers)")


def test_a_pinned_table_gives_the_same_program(recipe: Path) -> None:
    asked = "{method: kl, corrections: [room_for_unseen]}"
    build = make_build(_with(recipe, asked), target="tpu")
    prepared = pipeline.prepare(build)
    wanted = Quantization("perceptron", prepared.statistics, Calibration(), {}, lambda count: [])
    used = build.target.ranges_used(prepared.settled.lowered, wanted, prepared.program, build.options)
    (recipe.parent / "table.yaml").write_text(calibration_table(used))
    recipe.write_text(recipe.read_text().replace(asked, "{table: table.yaml, corrections: []}"))
    assert pipeline.prepare(make_build(recipe, target="tpu")).program.digest == prepared.program.digest


def test_where_numbers_are_not_counted_it_is_refused(recipe: Path) -> None:
    build = make_build(_with(recipe, "{method: max, corrections: [room_for_unseen]}"), target="tpu")
    with pytest.raises(RecipeError, match="the method max does not count") as raised:
        pipeline.prepare(build)
    assert "recipe.yaml:5:" in str(raised.value)
    assert "write method: auto" in str(raised.value)


def test_a_dry_run_without_images_has_nothing_to_widen(recipe: Path) -> None:
    for values in recipe.parent.glob("x_*.npy"):
        values.unlink()
    text = recipe.read_text().replace("{x: {calibration: {images: 'x_*.npy'}}}", "{x: {}}")
    recipe.write_text(f"{text}calibration: {{method: kl, corrections: [room_for_unseen]}}\n")
    assert not pipeline.preview(make_build(recipe, target="tpu")).calibrated


def test_with_a_named_method_it_is_there_when_asked_for(recipe: Path) -> None:
    named = pipeline.prepare(make_build(_with(recipe, "{method: kl}"), target="tpu"))
    assert not named.statistics.room
    recipe.write_text(recipe.read_text().replace("{method: kl}", "{method: kl, corrections: [room_for_unseen]}"))
    asked = pipeline.prepare(make_build(recipe, target="tpu"))
    assert asked.statistics.room
    assert asked.statistics.ranges["y"].max_abs > named.statistics.ranges["y"].max_abs
