"""The files that a recipe gives for calibration and verification, before anything is computed with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.stages.task import task_judge
from nnkit.stages.types import Build, Restructured

if TYPE_CHECKING:
    from nnkit.drawn_inputs import DrawnSamples
    from nnkit.graph import Model
    from nnkit.inputs import VerificationSamples
    from nnkit.target import Lowered


def needs_ranges(build: Build, lowered: Lowered) -> bool:
    """Whether the build's numbers rest on calibration: not in float, nor where the file brought all formats along."""
    return build.target.needs_ranges(build.options) and not lowered.keeps_formats


def verification_inputs(build: Build, model: Model, lowered: Lowered) -> VerificationSamples | DrawnSamples:
    """What the build is verified on; drawn inputs where the recipe names none and its numbers need none."""
    from nnkit.inputs import samples_or_drawn, verification_samples

    choose = verification_samples if needs_ranges(build, lowered) else samples_or_drawn
    return choose(build.recipe, model)


def check_inputs(build: Build, restructured: Restructured, lowered: Lowered) -> None:
    """The files of calibration, verification and task are there, and as many of each input.

    Raises RecipeError, UserFileError.
    """
    from nnkit.calibrate.run import check_sources
    from nnkit.inputs import calibration_files, has_calibration
    from nnkit.stages.model_stages import calibration_settings
    from nnkit.verify.tasks import task_scorer

    recipe, model, settings = build.recipe, restructured.model, calibration_settings(build)
    if settings.table is not None:
        settings.table.existing_file("the calibration table")
    elif needs_ranges(build, lowered) or has_calibration(recipe, settings, lowered.model):
        check_sources(lowered.model, calibration_files(recipe, lowered.model), where=recipe.where("model", "inputs"))
    samples = verification_inputs(build, model, lowered)
    outputs, inputs = ({spec.name: spec.shape[1:] for spec in specs} for specs in (model.outputs, model.inputs))
    task_scorer(recipe, outputs, inputs.values(), samples.images)
    task_judge(build, model)
