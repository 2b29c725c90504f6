"""The stage behind `tags: {hp: auto}`: the fewest 16-bit layers with which the recipe's gates hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import GateFailedError, RecipeError
from nnkit.recipe.sections import AUTO
from nnkit.report.progress import Step
from nnkit.stages.caching import Codec, StageCall, cached
from nnkit.stages.types import Build, Restructured, Settled
from nnkit.target import Lowered, PrecisionSearch

if TYPE_CHECKING:
    from nnkit.distance import Distance
    from nnkit.mixed_precision.diagnosis import Diagnosis, OutputPair
    from nnkit.recipe.tasks import Task
    from nnkit.samples import Sample
    from nnkit.verify.gates import GateResult
    from nnkit.verify.tasks import TaskScorer

_VERIFICATION = "verification"
_MOST_CALIBRATION_SAMPLES = 16  # a trial runs them all: more steady the choice little and cost in proportion


def choose_precision(
    build: Build, restructured: Restructured, lowered: Lowered, statistics: CalibrationStats
) -> Settled:
    """With `hp: auto`: the network with the layers in 16 bits that the search chose. Otherwise as it is lowered.

    Raises RecipeError where there is nothing to choose (all in 16 bits, pinned formats), GateFailedError where the
    gates fail even with every layer in 16 bits.
    """
    if build.recipe.tags_for(build.key).hp != AUTO:
        return Settled(lowered)
    import onnxruntime

    from nnkit import calibrate as calibrate_package
    from nnkit import mixed_precision, preprocess, quantize, simulate, verify

    where = build.recipe.where_override(build.key, "tags", "hp")
    asked = _search_of(build, restructured, lowered, statistics, where)
    samples = _sample_sets(build, restructured, statistics)
    limits = build.recipe.verify.gates.limits()
    budget = build.recipe.tags_for(build.key).budget
    task = build.recipe.verify.task
    scorer = _scorer(build, restructured, samples[_VERIFICATION])
    call = StageCall(
        "precision",
        [restructured.reference.digest, restructured.model.digest, statistics.digest, *_digests(samples)],
        {
            **asked.depends_on,
            "gates": limits,
            "budget": budget,
            "task": None if task is None else task.model_dump(mode="json"),
            "labels": _label_digests(task),
            "sets": {name: len(each) for name, each in samples.items()},
        },
        [
            quantize,
            simulate,
            verify,
            preprocess,
            calibrate_package,
            mixed_precision,
            "nnkit.clip_rate",
            "nnkit.distance",
            "nnkit.graph",
            "nnkit.inputs",
            "nnkit.layer_error",
            "nnkit.lowered",
            "nnkit.program",
            "nnkit.report.mixed_precision",
            "nnkit.samples",
            type(build.target).__module__.partition(".")[0],
        ],
        {"onnxruntime": onnxruntime.__version__},
    )
    codec = Codec(
        lambda search: {"search": json.dumps(search, ensure_ascii=False).encode()},
        lambda files: json.loads(files["search"]),
    )
    search: dict[str, Any] = cached(
        build,
        call,
        codec,
        lambda step: _search(asked.diagnosis, samples, limits, budget, scorer, where, step),
    )
    values = [row["value"] for row in search["chosen"]]
    return Settled(lowered.with_sixteen_bits(values), search)


def _search_of(
    build: Build, restructured: Restructured, lowered: Lowered, statistics: CalibrationStats, where: str
) -> PrecisionSearch:
    """How the target searches. Raises RecipeError where there is nothing to choose."""
    from nnkit.stages.build_stages import quantization_of

    wanted = quantization_of(build, lowered, statistics)
    try:
        asked = build.target.diagnosis(restructured.reference, lowered, wanted, build.options)
    except RecipeError as error:
        raise RecipeError(error.reason, where=error.where or where, remedy=error.remedy) from error
    if asked is None:
        raise RecipeError(
            f"`hp: auto` chooses 16-bit layers, but target {build.target.name!r} has one precision only",
            where=where,
            remedy="remove `hp: auto`, or build for a target that mixes precisions",
        )
    return asked


def _sample_sets(
    build: Build, restructured: Restructured, statistics: CalibrationStats
) -> dict[str, Sequence[Sample]]:
    """What the search is judged on: calibration images first, then the recipe's verification images."""
    from nnkit.inputs import calibration_samples, verification_samples

    recipe, model = build.recipe, restructured.reference
    calibrated = all(
        spec.name in recipe.model.inputs and recipe.model.inputs[spec.name].calibration is not None
        for spec in model.inputs
    )
    held_out = all(recipe.verify.globs_for(spec.name) for spec in model.inputs)
    sets: dict[str, Sequence[Sample]] = {}
    if calibrated and held_out:
        skipped = [image.name for image in statistics.skipped]
        sets["calibration"] = calibration_samples(recipe, model, _MOST_CALIBRATION_SAMPLES, skipped)
    sets[_VERIFICATION] = verification_samples(recipe, model)
    return sets


def _scorer(build: Build, restructured: Restructured, samples: Sequence[Sample]) -> TaskScorer | None:
    from nnkit.verify.tasks import task_scorer

    shapes = {spec.name: spec.shape[1:] for spec in restructured.model.outputs}
    inputs = [spec.shape[1:] for spec in restructured.model.inputs]
    return task_scorer(build.recipe, shapes, inputs, [sample.image for sample in samples])


def _label_digests(task: Task | None) -> list[str]:
    """The digests of the files that say what is true: another content is another search."""
    from nnkit.file_digest import file_digest

    named = [getattr(task, name, None) for name in ("labels", "pairs", "boxes")]
    return [file_digest(path.existing_file("the labels")) for path in named if path is not None]


def _digests(sets: Mapping[str, Sequence[Sample]]) -> list[str]:
    import hashlib

    import numpy as np

    digests = []
    for samples in sets.values():
        for sample in samples:
            state = hashlib.sha256()
            for name in sorted(sample.inputs):
                state.update(f"{name}:{sample.inputs[name].shape}".encode())
                state.update(np.ascontiguousarray(sample.inputs[name]).tobytes())
            digests.append(state.hexdigest())
    return digests


def _search(
    diagnose: Callable[[], Diagnosis],
    samples: Mapping[str, Sequence[Sample]],
    limits: Mapping[str, float],
    budget: int | None,
    scorer: TaskScorer | None,
    where: str,
    step: Step,
) -> dict[str, Any]:
    from nnkit.mixed_precision.budget import as_search_result, search_budget
    from nnkit.mixed_precision.diagnosis import confirmer, measurer
    from nnkit.mixed_precision.search import Trial, search_confirmed
    from nnkit.report.mixed_precision import gates_in_words, search_report
    from nnkit.verify.gates import DISTANCES, beyond_the_float_network, check_gates
    from nnkit.verify.tasks import output_pairs

    try:
        diagnosis = diagnose()
    except RecipeError as error:
        raise RecipeError(error.reason, where=error.where or where, remedy=error.remedy) from error
    images = [sample.image for sample in samples[_VERIFICATION]]
    count = 0
    unreachable: dict[str, GateResult] = {}

    def judge(name: str, distance: Distance, pairs: Sequence[OutputPair]) -> str:
        task = None
        measured = limits
        if name == _VERIFICATION and scorer is not None:
            task = scorer.score(*output_pairs(images, pairs))
        else:  # labels are of the verification images
            measured = {gate: limit for gate, limit in limits.items() if gate in DISTANCES}
        gates = check_gates(measured, distance, task)
        unreachable.update({gate.name: gate for gate in beyond_the_float_network(gates)})
        return "; ".join(str(gate) for gate in gates if not gate.passed)

    def shown(trial: Trial) -> None:
        nonlocal count
        count += 1
        step.advance()
        step.say(f"trial {count}, {len(trial.layers)} layers in 16 bits, {trial.sqnr_db:.1f} dB")

    gated = judge if budget is None else None
    read = scorer.read if scorer is not None else None
    measure = measurer(diagnosis, samples, gated, shown, read)
    if budget is not None:
        result = as_search_result(search_budget(diagnosis.candidates, measure, budget), measure)
    else:
        confirm = confirmer(diagnosis, samples, judge, read)
        result = search_confirmed(diagnosis.candidates, measure, confirm)
    if result.chosen is None:
        best = result.best
        raise GateFailedError(
            f"the gates ({gates_in_words(limits)}) fail even with all {len(diagnosis.layers)} layers in 16 bits: "
            f"{result.everything.failure}; the best that was reached is cosine {best.cosine:.6f}, "
            f"{best.sqnr_db:.1f} dB, max_abs {best.max_abs:.6g} with {len(best.layers)} layers in 16 bits",
            where=where,
            remedy=_remedy(tuple(unreachable.values())),
        )
    step.detail = (
        f"{len(result.chosen)} of {len(diagnosis.layers)} layers in 16 bits, {len(result.trials)} sets tried"
    )
    step.say("diagnosis")
    return search_report(diagnosis, result, samples, limits)


def _remedy(unreachable: Sequence[GateResult]) -> str:
    from nnkit.verify.gates import FLOAT_FAILS, float_fails_alone

    if not unreachable:
        return "relax the gates, use more or other calibration images, or another calibration method"
    return f"{float_fails_alone(unreachable)}: {FLOAT_FAILS}"
