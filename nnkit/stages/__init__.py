"""The stages as the pipeline calls them: each adapts the recipe, the target and the cache to one package.

Each is imported at first use: `nnkit check` needs few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.first_use import names_at_first_use

if TYPE_CHECKING:
    from nnkit.stages.build_stages import correct, emit, plan, quantize, verify
    from nnkit.stages.given_files import check_inputs
    from nnkit.stages.method import choose_method
    from nnkit.stages.model_stages import calibrate, calibrate_if_possible, import_model, lower, restructure
    from nnkit.stages.packaging import package, page
    from nnkit.stages.precision import choose_precision
    from nnkit.stages.report_stage import Outcome, report, untried
    from nnkit.stages.room import make_room
    from nnkit.stages.task import settle_task
    from nnkit.stages.tuning import tune_ranges
    from nnkit.stages.types import Artifact, Build, Imported, Preview, Restructured, Settled, Verdict

__all__ = [
    "Artifact",
    "Build",
    "Imported",
    "Outcome",
    "Preview",
    "Restructured",
    "Settled",
    "Verdict",
    "calibrate",
    "calibrate_if_possible",
    "check_inputs",
    "choose_method",
    "choose_precision",
    "correct",
    "emit",
    "import_model",
    "lower",
    "make_room",
    "package",
    "page",
    "plan",
    "quantize",
    "report",
    "restructure",
    "settle_task",
    "tune_ranges",
    "untried",
    "verify",
]

if not TYPE_CHECKING:  # a checker of types has the imports above, and takes no other name
    __getattr__ = names_at_first_use(
        __name__,
        {
            "build_stages": ("correct", "emit", "plan", "quantize", "verify"),
            "given_files": ("check_inputs",),
            "method": ("choose_method",),
            "model_stages": ("calibrate", "calibrate_if_possible", "import_model", "lower", "restructure"),
            "packaging": ("package", "page"),
            "precision": ("choose_precision",),
            "report_stage": ("Outcome", "report", "untried"),
            "room": ("make_room",),
            "task": ("settle_task",),
            "tuning": ("tune_ranges",),
            "types": ("Artifact", "Build", "Imported", "Preview", "Restructured", "Settled", "Verdict"),
        },
    )
