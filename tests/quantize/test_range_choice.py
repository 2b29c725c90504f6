"""The method `auto`: what it tries, what it chooses, and that the build has it."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_project import make_build, write_project

from nnkit import pipeline
from nnkit.cache import StageCache
from nnkit.calibrate.methods import METHODS
from nnkit.calibrate.run import calibrate
from nnkit.calibrate.stats import CalibrationStats, MethodTrial
from nnkit.graph import Model
from nnkit.inputs import calibration_samples
from nnkit.program import Program
from nnkit.quantize.judge import Gain
from nnkit.quantize.range_choice import RangeChoice, choose
from nnkit.samples import Sample
from nnkit.stages import Build, import_model, lower, restructure
from nnkit.stages.build_stages import quantization_of
from nnkit.verify.float_vs_program import compare_with_float
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.target import TpuTarget

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


@pytest.mark.parametrize(
    ("gains", "chosen"),
    [
        pytest.param({"max": (3.0, 3.5), "percentile": (0.5, 0.6), "mse": (-1.0, 0.1)}, "kl", id="none is clear"),
        pytest.param(
            {"max": (3.0, 3.5), "percentile": (0.5, 0.4), "mse": (0.4, 0.1)}, "percentile", id="the largest"
        ),
        pytest.param({"max": (0.09, 0.0), "percentile": (0.0, 0.0), "mse": (0.0, 0.0)}, "kl", id="below a tenth"),
        pytest.param({"max": (9.0, np.inf), "percentile": (9.0, np.inf), "mse": (9.0, np.inf)}, "kl", id="one input"),
    ],
)
def test_the_usual_method_stays_unless_another_is_clearly_better(
    gains: dict[str, tuple[float, float]], chosen: str
) -> None:
    trials = tuple(
        MethodTrial(name, sqnr_db) for name, sqnr_db in zip(METHODS, (33.0, 30.5, 29.0, 30.0), strict=True)
    )
    over = {name: Gain(*gain) for name, gain in gains.items()}
    choice = RangeChoice(trials, 4, held_out=True, usual="kl", gains=over)
    assert choice.method == chosen
    assert ("no other is better by one standard error" in choice.note) == (chosen == "kl")
    again = RangeChoice.from_json(json.loads(json.dumps(choice.as_json(), allow_nan=False)))
    assert (again.method, again.note) == (choice.method, choice.note)


def test_a_gain_is_that_of_the_mean_input_over_the_usual_method(tmp_path: Path) -> None:
    """Judged on one quarter at a time; by hand from the same programs' outputs, input by input."""
    build, model, lowered, samples = prepared(tmp_path, 4)

    def quantise(ranges: CalibrationStats) -> Program:
        made: Program = build.target.quantize(lowered, quantization_of(build, lowered, ranges), build.options)
        return made

    choice = choose(model, samples, quantise, 99.99, "kl")
    assert set(choice.gains) == {"max", "percentile", "mse"}
    gains = []
    for index, sample in enumerate(samples):
        measured = {"x": [other.inputs["x"] for at, other in enumerate(samples) if at != index]}
        one, usual = (
            compare_with_float(model, model, quantise(ranges), [sample], ranges=ranges.ranges).outputs.sqnr_db
            for ranges in (calibrate(model, measured, {}, method=method) for method in ("max", "kl"))
        )
        gains.append(one - usual)
    assert choice.gains["max"].mean_db == pytest.approx(statistics.mean(gains), abs=1e-3)
    assert choice.gains["max"].error_db == pytest.approx(statistics.stdev(gains) / 2.0, abs=1e-3)
    alone = choose(model, samples[:1], quantise, 99.99, "kl")
    assert alone.method == "kl", "a single input shows nothing"


def test_the_tpu_keeps_the_kind_of_the_vendors_scripts() -> None:
    target = TpuTarget()
    assert target.usual_calibration(TpuOptions(chip="bm1684x")) == "kl"
    assert target.calibration_method(TpuOptions(chip="bm1684x")) == "auto"


def test_the_choice_is_made_once(tmp_path: Path) -> None:
    path = recipe(tmp_path, "{method: auto, corrections: []}")
    cache = StageCache(tmp_path / "cache")
    pipeline.preview(make_build(path, cache, target="onnx_qdq"))
    again = make_build(path, cache, target="onnx_qdq")
    pipeline.preview(again)
    assert {timing.name: timing.cached for timing in again.progress.timings}["compare methods"]
    path.write_text(path.read_text().replace("{method: auto,", "{method: auto, percentile: 99.0,"))
    other = make_build(path, cache, target="onnx_qdq")
    pipeline.preview(other)
    assert not {timing.name: timing.cached for timing in other.progress.timings}["compare methods"]
