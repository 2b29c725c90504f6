"""Several builds at a time: recipes and their targets, on processes of this host or a Dask cluster.

Each build runs by itself, one failure does not stop the others. On a cluster every worker must see the recipes' files
and the output folder under the same paths.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnkit.api.building import run_build
from nnkit.build_status import exit_code
from nnkit.commands.common import print_json, print_line
from nnkit.commands.run import RunOptions, failure_text, unproven_text, wanted_builds
from nnkit.errors import ExitCode, NnkitError, UsageError
from nnkit.executors import THIS_HOST, Executor, ExecutorChoice, open_executor
from nnkit.executors.local import InProcess, Processes
from nnkit.report.progress import Progress


@dataclass(frozen=True)
class Job:
    """One build: a recipe, the key of one of its targets, and the recipe's name."""

    recipe: Path
    key: str
    name: str


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


def sweep(recipes: Sequence[Path], options: RunOptions) -> None:
    """Run all builds; print a table (or the reports as JSON).

    Raises, before anything is built, what the first recipe that cannot be read raises, and UsageError where two
    builds would go to one folder; SweepFailedError where builds failed, with the exit code of the first of them.
    """
    jobs = [
        Job(path, build.key, build.recipe.name)
        for path in recipes
        for build in wanted_builds(path, options, _quiet())
    ]
    _check_folders(jobs)
    progress = Progress(verbose=options.verbose)
    results: list[JobResult | None] = [None] * len(jobs)
    shared = replace(options, executor=_inside(options), jobs=1)
    with ExitStack() as stack, progress.stage("builds", len(jobs)) as step:
        executor = stack.enter_context(_opened(options, len(jobs)))
        for index, result in executor.map(run_job, shared, jobs):
            results[index] = result
            step.advance()
            progress.stream.write(f"  {result.status:<12} {jobs[index].recipe} for {jobs[index].key}\n")
            if options.verbose or result.error:
                progress.stream.write(result.log)
    done = [result for result in results if result is not None]
    if options.json:
        print_json([_as_json(result) for result in done])
        sys.stdout.flush()
    else:
        _print(done)
    failed = [result for result in done if result.error]
    if failed:
        raise SweepFailedError(failed)


def _check_folders(jobs: Sequence[Job]) -> None:
    """Raises UsageError where two builds would go to one folder."""
    first: dict[tuple[str, str], Job] = {}
    for job in jobs:
        other = first.setdefault((job.name, job.key), job)
        if other is not job:
            raise UsageError(
                f"{other.recipe} and {job.recipe} both build '{job.name}' for {job.key}, in one folder",
                remedy="give the recipes different names, or run them one after another with another --out",
            )


class SweepFailedError(NnkitError):
    """Builds of a sweep failed; the exit code is that of the first of them, or says that all are only unproven."""

    code = "NK102"

    def __init__(self, failed: Sequence[JobResult]) -> None:
        text = "\n".join(f"{result.job.recipe} for {result.job.key}: {result.error}" for result in failed)
        super().__init__(text, remedy="the last good builds are unchanged")
        codes = [ExitCode(result.exit_code) for result in failed]
        self.exit_code = next((code for code in codes if code != ExitCode.UNPROVEN), ExitCode.UNPROVEN)


def run_job(options: RunOptions, job: Job) -> JobResult:
    """One build, wherever it runs; errors for users become part of the result."""
    progress = Progress(verbose=options.verbose, stream=io.StringIO())
    try:
        every = wanted_builds(job.recipe, replace(options, targets=()), progress)
        build = next(build for build in every if build.key == job.key)
        outcome, seconds = run_build(build, options.out)
    except NnkitError as error:
        return JobResult(job, "failed", 0.0, None, str(error), int(error.exit_code), _log(progress))
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
        return open_executor(options.executor, jobs)
    count = min(options.jobs, jobs)
    return nullcontext(Processes(count) if count > 1 else InProcess())


def _inside(options: RunOptions) -> ExecutorChoice:
    """For the stages of a build that shares the host or the cluster with others: one process."""
    alone = options.executor.name == "local" and options.jobs == 1
    return options.executor if alone else replace(THIS_HOST, workers=1)


def _quiet() -> Progress:
    return Progress(quiet=True, stream=io.StringIO())


def _log(progress: Progress) -> str:
    return progress.stream.getvalue() if isinstance(progress.stream, io.StringIO) else ""


def _as_json(result: JobResult) -> dict[str, Any]:
    if result.report is not None:
        return result.report
    return {"recipe": str(result.job.recipe), "target": result.job.key, "status": "failed", "error": result.error}


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
