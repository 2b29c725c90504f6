"""The method `auto`: what it tries, what it chooses, and that the build has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.cache import StageCache
from nnkit.calibrate.run import calibrate
from nnkit.calibrate.stats import CalibrationStats, MethodTrial
from nnkit.graph import Model
from nnkit.inputs import calibration_samples
from nnkit.program import Program
from nnkit.quantize.range_choice import RangeChoice, choose
from nnkit.samples import Sample
from nnkit.stages import Build, import_model, lower, restructure
from nnkit.stages.build_stages import quantization_of
from nnkit.verify.float_vs_program import compare_with_float

QDQ = "onnx_qdq: {}"


def recipe(folder: Path, calibration: str, target: str = QDQ, images: int = 8) -> Path:
    folder.mkdir(exist_ok=True)
    path = write_project(folder, images=images)
    text = path.read_text().replace("gap8: {}", target).replace("{cosine: 0.99, sqnr_db: 20, max_abs: 10}", "{}")
    path.write_text(text.replace("release:", f"calibration: {calibration}\nrelease:"))
    return path


def built(folder: Path, calibration: str, target: str = QDQ, images: int = 8) -> tuple[dict[str, Any], Path]:
    name = target.partition(":")[0]
    outcome = pipeline.run(make_build(recipe(folder, calibration, target, images), target=name), folder / "out")
    report: dict[str, Any] = json.loads((outcome.folder / "report.json").read_text())
    return report, outcome.folder


@pytest.mark.parametrize("target", [QDQ, "gap8: {precision: int8}"])
def test_the_build_is_that_of_the_method_that_was_best(tmp_path: Path, target: str) -> None:
    report, folder = built(tmp_path / "auto", "{method: auto, corrections: []}", target)
    tried = {each["method"]: each["sqnr_db"] for each in report["calibration"]["tried"]}
    assert set(tried) == {"max", "percentile", "mse", "kl"}
    chosen = report["calibration"]["method"]
    assert tried[chosen] == max(tried.values())
    again, other = built(tmp_path / "named", f"{{method: {chosen}, corrections: []}}", target)
    assert "tried" not in again["calibration"]
    assert (folder / "program.nnkit").read_bytes() == (other / "program.nnkit").read_bytes()


def prepared(folder: Path, images: int) -> tuple[Build, Model, Any, list[Sample]]:
    build = make_build(recipe(folder, "{method: auto, corrections: []}", images=images), target="onnx_qdq")
    restructured = restructure(build, import_model(build))
    samples = calibration_samples(build.recipe, restructured.model, 32)
    return build, restructured.model, lower(build, restructured), samples


def test_a_figure_is_what_the_program_has_on_inputs_that_made_no_range(tmp_path: Path) -> None:
    build, model, lowered, samples = prepared(tmp_path, 20)

    def quantise(ranges: CalibrationStats) -> Program:
        made: Program = build.target.quantize(lowered, quantization_of(build, lowered, ranges), build.options)
        return made

    choice = choose(model, samples, quantise, 99.99)
    assert choice.held_out
    assert choice.judged_on == 5
    measured = [sample.inputs["x"] for index, sample in enumerate(samples) if index % 4]
    for trial in choice.trials:
        ranges = calibrate(model, {"x": measured}, {}, method=trial.method)  # type: ignore[arg-type]
        outputs = compare_with_float(model, model, quantise(ranges), samples[::4], ranges=ranges.ranges).outputs
        assert trial.sqnr_db == pytest.approx(outputs.sqnr_db, abs=1e-3), trial.method


def test_of_few_inputs_every_one_judges_once_and_a_single_one_itself(tmp_path: Path) -> None:
    build, model, lowered, samples = prepared(tmp_path, 6)
    seen: list[int] = []

    def quantise(ranges: CalibrationStats) -> Program:
        seen.append(ranges.images)
        made: Program = build.target.quantize(lowered, quantization_of(build, lowered, ranges), build.options)
        return made

    choice = choose(model, samples, quantise, 99.99)
    assert (choice.judged_on, choice.held_out) == (6, True)
    assert seen == [4] * 8 + [5] * 8, "four turns of four methods; each leaves its quarter out"
    alone = choose(model, samples[:1], quantise, 99.99)
    assert (alone.judged_on, alone.held_out) == (1, False)
    assert "which it was calibrated on" in alone.note


def test_of_equals_the_plainest_is_taken_and_the_cache_gives_the_same() -> None:
    trials = tuple(MethodTrial(name, 30.0) for name in ("max", "percentile", "mse", "kl"))
    choice = RangeChoice(trials, 2, held_out=True)
    assert choice.method == "max"
    assert RangeChoice.from_json(json.loads(json.dumps(choice.as_json()))) == choice


def test_the_choice_is_made_once(tmp_path: Path) -> None:
    path = recipe(tmp_path, "{method: auto, corrections: []}")
    cache = StageCache(tmp_path / "cache")
    pipeline.preview(make_build(path, cache, target="onnx_qdq"))
    again = make_build(path, cache, target="onnx_qdq")
    pipeline.preview(again)
    assert {timing.name: timing.cached for timing in again.progress.timings}["method"]
    path.write_text(path.read_text().replace("{method: auto,", "{method: auto, percentile: 99.0,"))
    other = make_build(path, cache, target="onnx_qdq")
    pipeline.preview(other)
    assert not {timing.name: timing.cached for timing in other.progress.timings}["method"]
