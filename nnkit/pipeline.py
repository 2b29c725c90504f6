"""The pipeline: the stages of a build in their order, and nothing else.

Each stage takes and returns its own type, so an order that makes no sense does not type-check. What a stage does
is in `nnkit.stages` (which adapts the recipe, the target and the cache) and in the package of its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nnkit import stages
from nnkit.build_status import RELEASED, Status
from nnkit.report.staging import staged_build
from nnkit.stages import Build, Preview, Settled
from nnkit.stages.packaging import signing_key
from nnkit.trust import refuse_programs


@dataclass(frozen=True)
class Outcome:
    """What a run left: its folder, its status, and the report's data."""

    folder: Path
    status: Status
    report: dict[str, object]


def run(build: Build, out: Path) -> Outcome:
    """From the recipe to a verified, packed release for one target, in `out/<name>/<target>`.

    Raises UsageError where the recipe names programs and is not trusted.
    """
    refuse_programs([(path.text, path.where) for path in build.options.programs()], trusted=build.trusted)
    signing_key(build.recipe)  # refused now, not when all is built
    with staged_build(out / build.recipe.name / build.key) as staged:
        imported = stages.import_model(build)
        restructured = stages.restructure(build, imported)
        build = stages.settle_task(build, restructured)
        lowered = stages.lower(build, restructured)
        statistics = stages.choose_method(build, lowered, stages.calibrate(build, restructured))
        settled = stages.choose_precision(build, restructured, lowered, statistics)
        settled, statistics = stages.correct(build, settled, statistics)
        program = stages.quantize(build, settled, statistics)
        plan = stages.plan(build, settled, program)
        artifact = stages.emit(build, settled, statistics, program, plan, staged.folder)
        verdict = stages.verify(build, restructured, artifact)
        report = stages.report(build, imported, restructured, settled, artifact, verdict)
        stages.package(build, verdict.status, staged.folder)
        stages.page(build, staged.folder)
        folder = staged.commit(failed=verdict.status not in RELEASED)
    return Outcome(folder, verdict.status, report)


def preview(build: Build) -> Preview:
    """The dry run: everything up to the memory plan, nothing written."""
    imported = stages.import_model(build)
    restructured = stages.restructure(build, imported)
    build = stages.settle_task(build, restructured)
    lowered = stages.lower(build, restructured)
    statistics, calibrated = stages.calibrate_if_possible(build, restructured)
    statistics = stages.choose_method(build, lowered, statistics)
    settled = Settled(lowered)
    if calibrated:
        settled = stages.choose_precision(build, restructured, lowered, statistics)
    program = stages.quantize(build, settled, statistics)
    return Preview(imported, restructured, settled, program, stages.plan(build, settled, program), calibrated)
