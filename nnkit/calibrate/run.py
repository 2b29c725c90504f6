"""Calibration: run the network on the user's images in float and keep what was observed of every value."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nnkit.calibrate.all_values import AllValues
from nnkit.calibrate.counting import fastest_count
from nnkit.calibrate.lanes import CalibrationSample, Pass, lanes_for
from nnkit.calibrate.methods import SEARCHES, Method, range_of
from nnkit.calibrate.observers import Extremes, Histogram
from nnkit.calibrate.ranges import max_range
from nnkit.calibrate.recorder import Recorder
from nnkit.calibrate.stats import CalibrationStats, SkippedImage, ValueRange
from nnkit.defaults import PERCENTILE
from nnkit.did_you_mean import suggestion
from nnkit.errors import RecipeError, UserFileError
from nnkit.graph.model import Model
from nnkit.preprocess.files import named
from nnkit.preprocess.load import as_network_input, load_input
from nnkit.preprocess.settings import Preprocess
from nnkit.samples import Sample
from nnkit.visible import with_lines

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Source: TypeAlias = "Path | NDArray[Any]"
Progress: TypeAlias = Callable[[], object]

_MOST_SHARE = 0.5  # beyond it nobody should go on
_LISTED_FILES = 10


@dataclass(frozen=True)
class Naming:
    """How messages and results name things.

    base: folder that names of files are given relative to. where: the place in the recipe.
    """

    base: Path | None = None
    where: str = ""


@dataclass(frozen=True, eq=False)
class Job:
    """What a pass over samples does with each of them.

    preprocess: by input name. histograms: whether numbers are counted, for all methods but `max`.
    allowed_bad: once more samples are unreadable, the network is not run any more and the rest is only decoded, so
        that all bad files are known at once.
    lanes: samples that are under way at a time, each on one core; None: as many as are of use here.
    """

    model: Model
    preprocess: Mapping[str, Preprocess]
    histograms: bool
    allowed_bad: int = 0
    naming: Naming = Naming()
    lanes: int | None = None


@dataclass(frozen=True, eq=False)
class Observations:
    """What was observed of a part of the samples; parts merge bit-identically in any order.

    observers: by value name, all of one kind. images: samples that were run. skipped: files that could not be used.
    """

    observers: Mapping[str, Extremes] | Mapping[str, Histogram]
    images: int
    skipped: tuple[SkippedImage, ...] = ()

    def merged(self, other: Observations) -> Observations:
        """What both parts observed; they must come from the same model and kind of observer."""
        mine: Mapping[str, Any] = self.observers
        theirs: Mapping[str, Any] = other.observers
        names = [*mine, *(name for name in theirs if name not in mine)]
        both = {
            name: mine[name].merged(theirs[name])
            if name in mine and name in theirs
            else mine.get(name, theirs.get(name))
            for name in names
        }
        return Observations(both, self.images + other.images, self.skipped + other.skipped)


def sources_of(model: Model, samples: Sequence[Sample]) -> dict[str, list[NDArray[np.float32]]]:
    """Samples as `calibrate` takes them: arrays by input name."""
    return {spec.name: [sample.inputs[spec.name] for sample in samples] for spec in model.inputs}


def calibrate(
    model: Model,
    sources: Mapping[str, Sequence[Source]],
    preprocess: Mapping[str, Preprocess],
    *,
    method: Method = "max",
    percentile: float = PERCENTILE,
    bad_images: float = 0.0,
    naming: Naming = Naming(),
    progress: Progress | None = None,
) -> CalibrationStats:
    """Ranges of all values over the images, in one streaming pass.

    Memory does not grow with the number of images. Two are under way at a time, on two cores.

    Args:
        sources: by input name, picture or `.npy` files, or arrays in real units; the i-th of each input belong
            together.
        preprocess: by input name; an input that is not listed takes pixels as they are.
        method: `max`: the extremes; `percentile`: the range that holds `percentile` percent of the numbers; `mse`:
            the range with the least squared error in a power-of-two format of 8 bits (unsigned where nothing
            negative was seen); `kl`: the one that keeps the distribution best in such a format.
        bad_images: share (0 to 1) of the samples that may be unreadable; they are left out and named in the result's
            `skipped`.
        progress: called after each sample.

    Raises:
        RecipeError: an input without sources, unequal numbers of sources, settings that cannot give the input.
        UserFileError: more unreadable files than allowed; all of them are named.
        ModelError: the network computes NaN or infinity; the place is the value's name.
    """
    total = check_sources(model, sources, where=naming.where)
    allowed = allowed_bad(bad_images, total)
    observed = observe(Job(model, preprocess, method != "max", allowed, naming), sources, progress=progress)
    check_skipped(observed.skipped, total, allowed, naming.where)
    return to_stats(model, observed, method=method, percentile=percentile)


def observe(
    job: Job,
    sources: Mapping[str, Sequence[Source]],
    *,
    progress: Progress | None = None,
    network: AllValues | None = None,
) -> Observations:
    """The pass of `calibrate` over some of the samples. network: that of the job's model, where it is open already.

    Raises:
        RecipeError, ModelError: as `calibrate`.
    """
    total = check_sources(job.model, sources, where=job.naming.where)
    network = network or AllValues(job.model)
    recorder = Recorder(network, fastest_count(total * network.numbers) if job.histograms else None)
    samples = Pass(
        network,
        recorder,
        lambda index: _load_sample(job, sources, index),
        total=total,
        allowed_bad=job.allowed_bad,
        progress=progress,
    )
    samples.run(job.lanes or lanes_for(total))
    return Observations(recorder.observers(), samples.images, samples.skipped)


def to_stats(
    model: Model, observed: Observations, *, method: Method, percentile: float = PERCENTILE, mse_bits: int = 8
) -> CalibrationStats:
    """The ranges that a method gives for what was observed (histograms for all methods but `max`)."""
    ranges: dict[str, ValueRange] = {}
    kept: dict[str, Histogram] = {}
    for name, observer in observed.observers.items():
        if isinstance(observer, Extremes):
            ranges[name] = max_range(observer)
            continue
        kept[name] = observer
        ranges[name] = range_of(observer, method, bits=mse_bits, percentile=percentile)
    return CalibrationStats(
        ranges=ranges,
        method=method,
        images=observed.images,
        graph_digest=hashlib.sha256(model.onnx_bytes).hexdigest(),
        percentile=percentile if method == "percentile" else None,
        mse_bits=mse_bits if method in SEARCHES else None,
        skipped=observed.skipped,
        histograms=kept,
    )


def check_sources(model: Model, sources: Mapping[str, Sequence[Source]], *, where: str = "") -> int:
    """How many samples there are.

    Raises:
        RecipeError: an unknown input, an input without sources, or inputs with unequal numbers of sources.
    """
    names = [spec.name for spec in model.inputs]
    for name in sources:
        if name not in names:
            remedy = suggestion(name, names, "inputs of the network")
            raise RecipeError(f"the network has no input '{name}'", where=where, remedy=remedy)
    counts = {name: len(sources.get(name, ())) for name in names}
    for name, count in counts.items():
        if count == 0:
            reason = f"input '{name}' has no calibration images"
            raise RecipeError(reason, where=where, remedy="add calibration: {images: ...} to it, or pin a table")
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"'{name}' has {count}" for name, count in counts.items())
        remedy = "give the same number for each input: the first of each belong together, and so on"
        raise RecipeError(f"inputs have unequal numbers of calibration images: {shown}", where=where, remedy=remedy)
    return next(iter(counts.values()))


def _load_sample(job: Job, sources: Mapping[str, Sequence[Source]], index: int) -> CalibrationSample:
    inputs: dict[str, NDArray[np.float32]] = {}
    names: list[str] = []
    for spec in job.model.inputs:
        source = sources[spec.name][index]
        name = named(source, job.naming.base) if isinstance(source, Path) else f"array {index} of input '{spec.name}'"
        names.append(name)
        settings = job.preprocess.get(spec.name) or Preprocess.from_recipe(None, spec.shape)
        try:
            if isinstance(source, Path):
                inputs[spec.name] = load_input(source, settings, spec.shape, where=job.naming.where)
            else:
                inputs[spec.name] = as_network_input(source, spec.shape, where=name)
        except UserFileError as error:
            return CalibrationSample(name, SkippedImage(name, error.reason))
    return CalibrationSample(", ".join(names), inputs)


def allowed_bad(share: float, total: int) -> int:
    """How many of `total` files may be unusable."""
    return int(share * total + 1e-9)


def check_skipped(skipped: Sequence[SkippedImage], total: int, allowed: int, where: str) -> None:
    """Raise UserFileError, naming them, where more files than allowed could not be used."""
    if len(skipped) > allowed:
        raise _too_many_bad(skipped, total, allowed, where)


def _too_many_bad(skipped: Sequence[SkippedImage], total: int, allowed: int, where: str) -> UserFileError:
    share = math.ceil(100 * len(skipped) / total) / 100
    remedy = "repair or remove them"
    if share <= _MOST_SHARE:
        remedy += f", or allow a share of bad images (calibration: {{bad_images: {share:g}}})"
    if len(skipped) == 1:
        return UserFileError(f"a calibration image: {skipped[0].reason}", where=skipped[0].name, remedy=remedy)
    lines = [f"{image.name}: {image.reason}" for image in skipped[:_LISTED_FILES]]
    if len(skipped) > _LISTED_FILES:
        lines.append(f"and {len(skipped) - _LISTED_FILES} more")
    limit = f" ({allowed} allowed)" if allowed else ""
    reason = with_lines(f"{len(skipped)} of {total} calibration images cannot be used{limit}:", lines)
    return UserFileError(reason, where=where, remedy=remedy)
