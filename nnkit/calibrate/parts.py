"""Calibration in parts: on several workers, with a checkpoint, and the same to the last bit however it was divided.

A part is `PART_IMAGES` consecutive samples, whoever runs it. Observations merge exactly, so parts are merged as they
come and memory does not grow with their number; files that could not be used are listed in the order of the images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from nnkit.calibrate.all_values import AllValues, activation_values
from nnkit.calibrate.checkpoint import Checkpoint, Finished
from nnkit.calibrate.lanes import LANES
from nnkit.calibrate.methods import AUTO
from nnkit.calibrate.run import (
    Job,
    Naming,
    Observations,
    Source,
    allowed_bad,
    check_skipped,
    check_sources,
    observe,
    to_stats,
)
from nnkit.calibrate.stats import CalibrationStats
from nnkit.executors import ExecutorChoice, open_executor
from nnkit.graph.model import Model

if TYPE_CHECKING:
    from nnkit.preprocess.settings import Preprocess
    from nnkit.recipe import Calibration

PART_IMAGES = 32


def observe_in_parts(
    job: Job,
    sources: Mapping[str, Sequence[Source]],
    choice: ExecutorChoice,
    *,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[int], object] = lambda images: None,
) -> Observations:
    """Observations of all samples, and the files that could not be used in the order of the samples.

    checkpoint: parts that it holds are not run again; it is kept up to date, and removed at the end.
    progress: told how many samples more are done.

    Raises:
        RecipeError, ModelError: as `observe`. UsageError, ToolError: as `open_executor` and `Executor.map`.
    """
    total = check_sources(job.model, sources, where=job.naming.where)
    parts = [
        {name: tuple(given[first : first + PART_IMAGES]) for name, given in sources.items()}
        for first in range(0, total, PART_IMAGES)
    ]
    finished = checkpoint.read() if checkpoint is not None else Finished()
    progress(sum(_length(parts[index]) for index in finished.skipped))
    left = [index for index in range(len(parts)) if index not in finished.skipped]
    with ExitStack() as stack:
        if checkpoint is not None:
            stack.callback(checkpoint.close)
        executor = stack.enter_context(open_executor(choice, len(left), threads=LANES))
        job = replace(job, lanes=None if choice.workers is None and executor.workers == 1 else 1)
        for turn, observations in executor.map(observe_part, job, [parts[index] for index in left]):
            finished = finished.with_part(left[turn], observations)
            progress(_length(parts[left[turn]]))
            if checkpoint is not None:
                checkpoint.keep(finished)
    if checkpoint is not None:
        checkpoint.remove()
    skipped = [image for index in sorted(finished.skipped) for image in finished.skipped[index]]
    return Observations(_in_graph_order(job.model, finished), finished.images, tuple(skipped))


def observe_part(job: Job, sources: Mapping[str, Sequence[Source]]) -> Observations:
    """One part, wherever it runs."""
    return observe(job, sources, network=_network(job.model))


def calibrate_in_parts(
    model: Model,
    sources: Mapping[str, Sequence[Source]],
    preprocess: Mapping[str, Preprocess],
    settings: Calibration,
    naming: Naming,
    choice: ExecutorChoice,
    *,
    checkpoint: Checkpoint | None,
    progress: Callable[[int], object],
) -> CalibrationStats:
    """`calibrate`, in parts. Raises also UserFileError where more files than allowed cannot be used."""
    total = check_sources(model, sources, where=naming.where)
    allowed = allowed_bad(settings.bad_images, total)
    job = Job(model, preprocess, settings.method not in ("max", None), allowed, naming)
    observed = observe_in_parts(job, sources, choice, checkpoint=checkpoint, progress=progress)
    check_skipped(observed.skipped, total, allowed, naming.where)
    if settings.method == AUTO:
        return replace(to_stats(model, observed, method="max"), method=AUTO)
    return to_stats(model, observed, method=settings.method or "max", percentile=settings.percentile)


@lru_cache(maxsize=1)
def _network(model: Model) -> AllValues:
    """The session of a worker: opening it costs more than running a part."""
    return AllValues(model)


def _length(part: Mapping[str, Sequence[Source]]) -> int:
    return max(len(given) for given in part.values())


def _in_graph_order(model: Model, finished: Finished) -> dict[str, Any]:
    """Observers in the order of the graph's values, whichever part came first."""
    return {name: finished.observers[name] for name in activation_values(model.proto()) if name in finished.observers}
