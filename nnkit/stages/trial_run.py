"""A network built and run once, from calibration to the artifact, to know that what a message proposes does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nnkit.calibrate import calibrate, sources_of
from nnkit.errors import NnkitError
from nnkit.inputs import samples_or_drawn
from nnkit.owned_folder import temporary_folder
from nnkit.program.inputs import quantized_inputs
from nnkit.report.progress import Progress
from nnkit.stages.build_stages import emit, plan, quantize
from nnkit.stages.types import Build, Restructured, Settled
from nnkit.target import Lowered
from nnkit.verify.artifact import compare_artifact
from nnkit.verify.float_vs_program import compare_with_float

_INPUTS = 1


def trial_run(build: Build, restructured: Restructured, lowered: Lowered) -> bool | None:
    """Whether the artifact computes what its program says, on inputs of the recipe, or drawn ones.

    None: no runner of the target that is not emulated is here to tell.
    """
    runners = [each for each in build.target.runners(build.options) if not each.emulated and each.missing() is None]
    if not runners:
        return None
    quiet = replace(build, progress=Progress(quiet=True, stream=None))
    model = restructured.model
    try:
        samples = samples_or_drawn(build.recipe, model)[:_INPUTS]
        statistics = calibrate(model, sources_of(model, samples), {})
        settled = Settled(lowered)
        program = quantize(quiet, settled, statistics)
        compare_with_float(model, model, program, samples)
        with temporary_folder("nnkit-trial-") as name:
            folder = Path(name)
            planned = plan(quiet, settled, statistics, program)
            artifact = emit(quiet, settled, statistics, program, planned, folder).folder
            given = [quantized_inputs(program, sample) for sample in samples]
            verdicts = [compare_artifact(runner, artifact, program, given) for runner in runners]
    except NnkitError:
        return False
    ran = [verdict for verdict in verdicts if verdict.ran]
    return all(not verdict.mismatches for verdict in ran) if ran else None
