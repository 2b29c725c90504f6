"""The pipeline: the stages of a build in their order, and nothing else.

Each stage takes and returns its own type, so an order that makes no sense does not type-check. What a stage does
is in `nnkit.stages` (which adapts the recipe, the target and the cache) and in the package of its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nnkit import stages
from nnkit.build_status import RELEASED, Status
from nnkit.calibrate.stats import CalibrationStats
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Program
from nnkit.report.staging import staged_build
from nnkit.stages import Build, Preview, Settled
from nnkit.stages.packaging import signing_key
from nnkit.stages.types import Imported, Restructured, Verdict
from nnkit.target import Lowered, check_corrections
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
    refuse(build)
    with staged_build(out / build.recipe.name / build.key) as staged:
        prepared = prepare(build)
        finished = finish(prepared, staged.folder)
        status = finished.verdict.status
        stages.package(prepared.build, status, staged.folder)
        stages.page(prepared.build, staged.folder)
        folder = staged.commit(failed=status not in RELEASED)
    return Outcome(folder, status, finished.report)


def refuse(build: Build) -> None:
    """What is refused before anything is computed: programs of a recipe that is not trusted, a wrong key, and
    corrections that the target does not offer."""
    refuse_programs([(path.text, path.where) for path in build.options.programs()], trusted=build.trusted)
    signing_key(build.recipe)
    check_corrections(build.recipe, build.key, build.target)


@dataclass(frozen=True, eq=False)
class Finished:
    """What a build came to."""

    plan: MemoryPlan
    verdict: Verdict
    report: dict[str, object]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A network as it will be computed, before anything of it is placed."""

    build: Build
    imported: Imported
    restructured: Restructured
    settled: Settled
    statistics: CalibrationStats
    program: Program


@dataclass(frozen=True, eq=False)
class Accepted:
    """A network that the target takes. build: with the task that the network has."""

    build: Build
    imported: Imported
    restructured: Restructured
    lowered: Lowered


def accept(build: Build, *, images: bool = True) -> Accepted:
    """All that is refused before anything is calibrated: `check` reports it, and `run` and `plan` begin with it.

    images: whether the files that calibration and verification read have to be there.
    """
    check_corrections(build.recipe, build.key, build.target)
    imported = stages.import_model(build)
    restructured = stages.restructure(build, imported)
    build = stages.settle_task(build, restructured)
    lowered = stages.lower(build, restructured)
    if images:
        stages.check_inputs(build, restructured, lowered)
    return Accepted(build, imported, restructured, lowered)


def prepare(build: Build) -> Prepared:
    """From the recipe to the numbers of every layer."""
    accepted = accept(build)
    build, imported = accepted.build, accepted.imported
    restructured, lowered = accepted.restructured, accepted.lowered
    statistics = stages.make_room(build, lowered, stages.calibrate(build, lowered, restructured.model))
    statistics = stages.choose_method(build, lowered, statistics)
    statistics = stages.tune_ranges(build, lowered, statistics)
    settled = stages.choose_precision(build, restructured, lowered, statistics)
    settled, statistics = stages.correct(build, settled, statistics)
    return Prepared(build, imported, restructured, settled, statistics, stages.quantize(build, settled, statistics))


def finish(prepared: Prepared, folder: Path) -> Finished:
    """Placed, written into a folder, verified and reported."""
    build, settled, program = prepared.build, prepared.settled, prepared.program
    plan = stages.plan(build, settled, prepared.statistics, program)
    artifact = stages.emit(build, settled, prepared.statistics, program, plan, folder)
    verdict = stages.verify(build, prepared.restructured, artifact)
    outcome = stages.Outcome(prepared.imported, prepared.restructured, settled, artifact, verdict)
    report = stages.report(build, outcome)
    return Finished(plan, verdict, report)


def preview(build: Build) -> Preview:
    """The dry run: everything up to the memory plan, nothing written."""
    accepted = accept(build, images=False)
    build, imported = accepted.build, accepted.imported
    restructured, lowered = accepted.restructured, accepted.lowered
    statistics, calibrated = stages.calibrate_if_possible(build, lowered)
    statistics = stages.make_room(build, lowered, statistics)
    statistics = stages.choose_method(build, lowered, statistics)
    statistics = stages.tune_ranges(build, lowered, statistics)
    settled = Settled(lowered)
    if calibrated:
        settled = stages.choose_precision(build, restructured, lowered, statistics)
    program = stages.quantize(build, settled, statistics)
    return Preview(
        imported, restructured, settled, program, stages.plan(build, settled, statistics, program), calibrated
    )
