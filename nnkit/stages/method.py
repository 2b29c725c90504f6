"""The stage behind `calibration: {method: auto}`: the range method that serves best on held-out inputs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from nnkit.calibrate.stats import CalibrationStats
from nnkit.defaults import FLOAT_INPUTS, FLOAT_OUTPUTS
from nnkit.report.progress import Step
from nnkit.stages.caching import Codec, StageCall, cached
from nnkit.stages.types import Build
from nnkit.target import Lowered

if TYPE_CHECKING:
    from nnkit.program import Program
    from nnkit.recipe.sections import Calibration, Correction

MOST_SAMPLES = 32  # a quarter of them judges


def choose_method(build: Build, lowered: Lowered, statistics: CalibrationStats) -> CalibrationStats:
    """With the method `auto`: the ranges of the method that was chosen. Other statistics stay as they are.

    Where the network keeps formats of its own, there is nothing to choose: the ranges are what was seen.
    """
    from nnkit.calibrate.methods import AUTO, by_method
    from nnkit.quantize.range_choice import RangeChoice, choose, chosen_by
    from nnkit.stages.build_stages import quantization_of
    from nnkit.stages.model_stages import calibration_settings

    if statistics.method != AUTO:
        return statistics
    if lowered.keeps_formats:
        return by_method(statistics, "max")
    settings = calibration_settings(build)
    wanted = quantization_of(build, lowered, statistics)

    def program(ranges: CalibrationStats) -> Program:
        how = settings.model_copy(update={"method": ranges.method, "corrections": of_trials(build, settings)})
        trial = replace(wanted, statistics=ranges, calibration=how)
        made: Program = build.target.quantize(lowered, trial, build.options)
        return made

    def compute(step: Step) -> RangeChoice:
        usual = build.target.usual_calibration(build.options)
        samples = wanted.samples(MOST_SAMPLES)
        return choose(lowered.model, samples, program, settings.percentile, usual, statistics.room)

    call = ranges_call("compare methods", build, lowered, statistics, settings)
    codec = Codec(
        lambda choice: {"choice": json.dumps(choice.as_json()).encode()},
        lambda files: RangeChoice.from_json(json.loads(files["choice"])),
    )
    choice: RangeChoice = cached(build, call, codec, compute)
    build.progress.note(choice.note)
    return chosen_by(statistics, choice, settings.percentile)


def gets_correction(build: Build, settings: Calibration, correction: str) -> bool:
    """Whether the recipe asks for a correction, or leaves method and corrections to a target that has it."""
    from nnkit.calibrate.methods import AUTO

    if settings.corrections is not None:
        return correction in settings.corrections
    return settings.method == AUTO and correction in build.target.own_corrections(build.options)


def of_trials(build: Build, settings: Calibration) -> tuple[Correction, ...]:
    """The corrections that programs have which are made to be judged: those that are not judged themselves."""
    return tuple(each for each in (FLOAT_INPUTS, FLOAT_OUTPUTS) if gets_correction(build, settings, each))


def ranges_call(
    name: str, build: Build, lowered: Lowered, statistics: CalibrationStats, settings: Calibration, **more: str
) -> StageCall:
    """The cache's key of a stage that tries ranges on programs of the target. more: what else it depends on."""
    import onnxruntime

    from nnkit import calibrate as calibrate_package
    from nnkit import quantize, simulate

    return StageCall(
        name,
        [lowered.model.digest, statistics.digest],
        {"target": build.target.name, "options": build.options.model_dump(mode="json"), "samples": MOST_SAMPLES}
        | {"calibration": settings.model_dump(mode="json")}
        | more,
        [
            quantize,
            simulate,
            calibrate_package,
            "nnkit.graph",
            "nnkit.inputs",
            "nnkit.lowered",
            "nnkit.program",
            "nnkit.samples",
            type(build.target).__module__.partition(".")[0],
        ],
        {"onnxruntime": onnxruntime.__version__},
    )
