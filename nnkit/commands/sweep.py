"""Several builds at a time: recipes, their targets and the grids that they span, on processes of this host or a Dask
cluster.

Each build runs by itself, one failure does not stop the others. On a cluster every worker must see the recipes' files
and the output folder under the same paths.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnkit.api.building import run_build
from nnkit.api.preparing import builds, load
from nnkit.api.sweeping import load_sweep
from nnkit.build_status import exit_code
from nnkit.commands.common import not_built, print_json
from nnkit.commands.run import RunOptions, failure_text, float_fails, switches, unproven_text
from nnkit.commands.standing_rows import standing_rows
from nnkit.commands.sweep_table import SweepTable
from nnkit.errors import BuildsFailedError, ExitCode, UsageError, cannot_be_written
from nnkit.executors import THIS_HOST, Executor, ExecutorChoice, open_executor
from nnkit.executors.local import InProcess, Processes
from nnkit.failures import as_error
from nnkit.output_file import make_folder
from nnkit.owned_folder import owned_folder
from nnkit.recipe.grid import Point
from nnkit.recipe.settings import Setting
from nnkit.report.journal import Journal
from nnkit.report.progress import Progress
from nnkit.terminal import flush, print_line, write_lines
from nnkit.verify.gates import FLOAT_FAILS
from nnkit.visible import Visible


@dataclass(frozen=True)
class Job:
    """One build: a recipe, its name, and the point of its grid. settings: of the command line, before the point's.

    spanned: whether the recipe spans a grid. journal: the file in which the build says where it is.
    """

    recipe: Path
    name: str
    point: Point
    settings: tuple[Setting, ...] = ()
    spanned: bool = False
    journal: Path | None = None

    @property
    def key(self) -> str:
        """The key under which it is built."""
        return self.point.variant


@dataclass(frozen=True)
class Jobs:
    """The builds that a command makes. left_out: the others of their grids, which stay as they are."""

    wanted: tuple[Job, ...]
    left_out: tuple[Job, ...] = ()


@dataclass(frozen=True)
class JobResult:
    """How a build ended. log: what it wrote on the way. error: why it did not pass, empty where it did."""

    job: Job
    status: str
    seconds: float
    report: dict[str, Any] | None
    error: str
    exit_code: int
    log: str


def jobs_of(recipes: Sequence[Path], options: RunOptions) -> Jobs:
    """The builds that recipes ask for.

    Raises what a recipe that cannot be read raises, at any point of its grid; UsageError for a target that none of
    its builds is for.
    """
    wanted: list[Job] = []
    left_out: list[Job] = []
    for path in recipes:
        loaded = load_sweep(path, options.settings, options.targets)
        for points, jobs in ((loaded.points, wanted), (loaded.left_out, left_out)):
            jobs += [Job(path, loaded.recipe.name, point, loaded.fixed, spanned=loaded.spans) for point in points]
    return Jobs(tuple(wanted), tuple(left_out))


def sweep(asked: Jobs, options: RunOptions) -> None:
    """Run all builds; print a table (or the reports as JSON), and write it as `sweep.csv` and `sweep.html`.

    Raises UsageError, before anything is built, where two builds would go to one folder; BuildsFailedError where
    builds failed, with the worst of their exit codes.
    """
    jobs: Sequence[Job] = asked.wanted
    _check_folders(jobs)
    names = list(dict.fromkeys(job.name for job in jobs))
    folder = options.out / names[0] if len(names) == 1 else options.out
    progress = Progress(verbose=options.verbose)
    with ExitStack() as stack:
        try:
            make_folder(folder, sent=[options.out])
            journals = stack.enter_context(owned_folder(folder, ".sweep-"))
        except OSError as error:
            raise cannot_be_written(folder, error) from error
        jobs = [replace(job, journal=journals / f"{index}.jsonl") for index, job in enumerate(jobs)]
        executor = stack.enter_context(_opened(options, len(jobs)))
        standing = standing_rows(asked.left_out, options.out, folder)
        table = SweepTable(folder, ", ".join(names), jobs, options.out, executor.dashboard, standing)
        progress.say_dashboard(executor.dashboard)
        progress.line(f"  {len(jobs)} builds; follow them in {table.page}")
        done = _run(executor, jobs, options, table, progress)
    progress.line(f"  table        {table.csv}, {table.page}")
    if options.json:
        print_json([_as_json(result) for result in done])
        flush(sys.stdout)
    else:
        _print(done)
    failed = [result for result in done if result.error]
    if failed:
        raise BuildsFailedError(
            [f"{result.job.recipe} for {result.job.key}: {result.error}" for result in failed],
            [ExitCode(result.exit_code) for result in failed],
            remedy=f"{_remedy(failed)}; their last good builds are unchanged",
        )


def _remedy(failed: Sequence[JobResult]) -> str:
    """What to do about the builds that failed: where no build of the float network could pass, that is said."""
    floats = {float_fails(result.report) if result.report is not None else "" for result in failed}
    if "" in floats:
        return "see what each build says above; or leave these out of the sweep"
    return f"no build can pass, as {'; '.join(sorted(floats))}: {FLOAT_FAILS}"


def _run(
    executor: Executor, jobs: Sequence[Job], options: RunOptions, table: SweepTable, progress: Progress
) -> list[JobResult]:
    results: list[JobResult | None] = [None] * len(jobs)
    shared = replace(options, executor=_inside(options), jobs=1)
    with progress.stage("builds", len(jobs)) as step, table.following(step):
        for index, result in executor.map(run_job, shared, jobs):
            results[index] = result
            table.set(index, result.status, result.seconds, result.report, result.error)
            step.advance()
            progress.line(f"  {result.status:<12} {jobs[index].recipe} for {jobs[index].key}")
            if options.verbose or result.error:
                write_lines(progress.stream, Visible(result.log.rstrip("\n")))
    return [result for result in results if result is not None]


def _check_folders(jobs: Iterable[Job]) -> None:
    """Raises UsageError where two builds would go to one folder."""
    first: dict[tuple[str, str], Job] = {}
    for job in jobs:
        other = first.setdefault((job.name, job.key), job)
        if other is not job:
            raise UsageError(
                f"{other.recipe} and {job.recipe} both build '{job.name}' for {job.key}, in one folder",
                remedy="give the recipes different names, or run them one after another with another --out",
            )


def run_job(options: RunOptions, job: Job) -> JobResult:
    """One build, wherever it runs; errors for users become part of the result."""
    journal = None if job.journal is None else Journal(job.journal)
    progress = Progress(verbose=options.verbose, stream=io.StringIO(), journal=journal)
    try:
        recipe = load(job.recipe, (*job.settings, *job.point.settings)).only(job.point.key, job.key, options.settings)
        (build,) = builds(recipe, (), progress, switches(options))
        outcome, seconds = run_build(build, options.out)
    except Exception as error:
        why = as_error(error)
        return JobResult(job, "failed", 0.0, None, str(why), int(why.exit_code), _log(progress))
    code, text = exit_code(outcome.status), ""
    if code == ExitCode.UNPROVEN:
        text = unproven_text(outcome)
    elif code != ExitCode.OK:
        text = failure_text(build, outcome)
    text = text.removeprefix(f"{job.key}: ")
    return JobResult(job, outcome.status, seconds, outcome.report, text, int(code), _log(progress))


def _opened(options: RunOptions, jobs: int) -> AbstractContextManager[Executor]:
    """Where builds run: the cluster, or as many processes of this host as `--jobs` says."""
    if options.executor.name == "dask":
        return open_executor(options.executor, jobs, dashboard=True)
    count = min(options.jobs, jobs)
    return nullcontext(Processes(count) if count > 1 else InProcess())


def _inside(options: RunOptions) -> ExecutorChoice:
    """For the stages of a build that shares the host or the cluster with others: one process."""
    alone = options.executor.name == "local" and options.jobs == 1
    return options.executor if alone else replace(THIS_HOST, workers=1)


def _log(progress: Progress) -> str:
    return progress.stream.getvalue() if isinstance(progress.stream, io.StringIO) else ""


def _as_json(result: JobResult) -> dict[str, Any]:
    if result.report is not None:
        return result.report
    return not_built(result.job.recipe, result.job.key, result.error, result.exit_code)


def _print(results: Sequence[JobResult]) -> None:
    """One line a build."""
    width = max((len(str(result.job.recipe)) for result in results), default=6)
    keys = max((len(result.job.key) for result in results), default=6)
    print_line(f"{'recipe':<{width}}  {'target':<{keys}}  {'status':<11} {'cosine':>9} {'SQNR dB':>8} {'seconds':>8}")
    for result in results:
        verify = (result.report or {}).get("verify", {})
        detects = verify.get("task", {}).get("kind") == "detection"  # of which distances say nothing
        distance = {} if detects else verify.get("float_vs_program", {})
        cosine, sqnr = distance.get("cosine"), distance.get("sqnr_db")
        cells = f"{cosine:>9.6f}" if cosine is not None else f"{'-':>9}"
        cells += f" {sqnr:>8.2f}" if sqnr is not None else f" {'-':>8}"
        seconds = f"{result.seconds:>8.1f}"
        print_line(f"{result.job.recipe!s:<{width}}  {result.job.key:<{keys}}  {result.status:<11} {cells} {seconds}")
