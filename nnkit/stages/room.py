"""The stage behind the correction `room_for_unseen`: room in the ranges of values that were seen in few numbers."""

from __future__ import annotations

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import RecipeError
from nnkit.stages.method import gets_correction
from nnkit.stages.types import Build
from nnkit.target import Lowered


def make_room(build: Build, lowered: Lowered, statistics: CalibrationStats) -> CalibrationStats:
    """The statistics with that room, where the recipe asks for it, or gets it with the method `auto`.

    Raises RecipeError where the recipe asks, and it is not known how many numbers were seen.
    """
    from nnkit.calibrate.limits import limits_of
    from nnkit.calibrate.room import ROOM_FOR_UNSEEN, widened_values, with_room
    from nnkit.inputs import input_ranges
    from nnkit.stages.model_stages import calibration_settings

    settings = calibration_settings(build)
    asked = ROOM_FOR_UNSEEN in (settings.corrections or ())
    if not gets_correction(build, settings, ROOM_FOR_UNSEEN):
        return statistics
    if not statistics.images and settings.table is None:
        return statistics  # a dry run without images, which knows no ranges
    if asked and not statistics.histograms:
        raise RecipeError(
            f"{ROOM_FOR_UNSEEN} goes by how many numbers of each value were seen, which "
            + (
                "a table does not tell"
                if settings.table is not None
                else f"the method {settings.method} does not count"
            ),
            where=build.recipe.where_override(build.key, "calibration", "corrections"),
            remedy=f"write method: auto and give calibration images, or remove {ROOM_FOR_UNSEEN}",
        )
    if lowered.keeps_formats:
        return statistics
    made = with_room(statistics, limits_of(lowered.model, input_ranges(build.recipe, lowered.model)))
    widened = widened_values(made)
    if widened:
        most = widened[0]
        build.progress.note(
            f"room for what was not seen: calibration saw few numbers of {len(widened)} of "
            f"{len(made.ranges)} values; their ranges are up to {most.factor:.2f} times as wide "
            f"({most.name!r}, {most.numbers:,} numbers)"
        )
    return made
