"""The stage behind the correction `tune_ranges`: ranges widened where that brings the reading layers nearer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import RecipeError
from nnkit.report.progress import Step
from nnkit.stages.caching import Codec, cached
from nnkit.stages.method import MOST_SAMPLES, gets_correction, of_trials, ranges_call
from nnkit.stages.types import Build
from nnkit.target import Lowered

if TYPE_CHECKING:
    from nnkit.program import Program


def tune_ranges(build: Build, lowered: Lowered, statistics: CalibrationStats) -> CalibrationStats:
    """The statistics with tuned ranges, where the recipe asks for them, or gets them with the method `auto`.

    Raises RecipeError where the recipe asks and there is nothing to tune, or too few images to tune on.
    """
    from nnkit.calibrate.methods import AUTO, METHODS
    from nnkit.quantize.judge import too_few
    from nnkit.quantize.range_tuning import FEWEST, TUNE_RANGES, Quantiser, RangeTuning, choose_tuning
    from nnkit.stages.build_stages import quantization_of
    from nnkit.stages.model_stages import calibration_settings

    settings = calibration_settings(build)
    asked = TUNE_RANGES in (settings.corrections or ())
    if not gets_correction(build, settings, TUNE_RANGES):
        return statistics
    method = next((each for each in METHODS if each == statistics.method), None)
    if method is None or method == "max":
        if asked and settings.method != AUTO:
            raise RecipeError(
                f"{TUNE_RANGES} widens ranges that a method made narrower than what was seen, and there are none",
                where=build.recipe.where_override(build.key, "calibration", "corrections"),
                remedy=f"write method: kl and give calibration images, or remove {TUNE_RANGES}",
            )
        return statistics
    wanted = quantization_of(build, lowered, statistics)
    how = settings.model_copy(update={"method": method, "corrections": of_trials(build, settings)})

    def program(ranges: CalibrationStats) -> Program:
        trial = replace(wanted, statistics=ranges, calibration=how)
        made: Program = build.target.quantize(lowered, trial, build.options)
        return made

    def fit(ranges: CalibrationStats) -> CalibrationStats:
        trial = replace(wanted, statistics=ranges, calibration=how)
        return build.target.ranges_used(lowered, trial, program(ranges), build.options).statistics

    def compute(step: Step) -> RangeTuning:
        samples = wanted.samples(MOST_SAMPLES)
        if len(samples) < FEWEST:
            if asked:
                raise too_few(len(samples), FEWEST)
            return RangeTuning({}, "")
        return choose_tuning(
            lowered.model,
            statistics,
            samples,
            Quantiser(fit, program),
            method,
            percentile=settings.percentile,
            asked=asked,
            on_round=step.round,
        )

    call = ranges_call("tune ranges", build, lowered, statistics, settings, method=method)
    tuning: RangeTuning = cached(build, call, Codec(_encoded, _decoded), compute)
    if tuning.note:
        build.progress.note(tuning.note)
    return tuning.applied(fit(statistics)) if tuning.ranges else statistics


def _encoded(tuning: Any) -> Mapping[str, bytes]:
    ranges = {name: asdict(each) for name, each in tuning.ranges.items()}
    return {"tuning": json.dumps({"ranges": ranges, "note": tuning.note}).encode()}


def _decoded(files: Mapping[str, bytes]) -> Any:
    """What `_encoded` gave. Raises KeyError, TypeError or ValueError for anything else."""
    from nnkit.calibrate.stats import ValueRange
    from nnkit.quantize.range_tuning import RangeTuning

    stored: dict[str, Any] = json.loads(files["tuning"])
    return RangeTuning({name: ValueRange(**each) for name, each in stored["ranges"].items()}, stored["note"])
