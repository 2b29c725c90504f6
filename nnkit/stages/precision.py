"""The stage behind `tags: {hp: auto}`: the fewest 16-bit layers with which the recipe's gates hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import GateFailedError, RecipeError
from nnkit.recipe.sections import AUTO
from nnkit.report.progress import Step
from nnkit.stages.caching import Codec, StageCall, cached
from nnkit.stages.types import Build, Restructured

if TYPE_CHECKING:
    from nnkit.graph import Model
    from nnkit.program import Program
    from nnkit.quantize import FixedPointScheme
    from nnkit.quantize.diagnose import Diagnosis, OutputPair
    from nnkit.recipe.tasks import Task
    from nnkit.target import FixedPointTarget
    from nnkit.verify.gates import GateResult
    from nnkit.verify.metrics import Distance
    from nnkit.verify.samples import Sample
    from nnkit.verify.tasks import TaskScorer

_VERIFICATION = "verification"
_DISTANCES = ("cosine", "sqnr_db", "max_abs")
_MOST_CALIBRATION_SAMPLES = 16  # a trial runs them all: more steady the choice little and cost in proportion


def choose_precision(build: Build, restructured: Restructured, statistics: CalibrationStats) -> Restructured:
    """With `hp: auto`: the model with the layers tagged that the search chose. Otherwise the model as it is.

    Raises RecipeError where there is nothing to choose (all in 16 bits, pinned formats), GateFailedError where the
    gates fail even with every layer in 16 bits.
    """
    if build.recipe.tags_for(build.key).hp != AUTO:
        return restructured
    import onnxruntime

    from nnkit import calibrate as calibrate_package
    from nnkit import preprocess, quantize, simulate, verify
    from nnkit.quantize.diagnose import with_sixteen_bits

    where = build.recipe.where_override(build.key, "tags", "hp")
    diagnose, settings = _diagnosis_of(build, restructured, statistics, where)
    samples = _sample_sets(build, restructured, statistics)
    limits = build.recipe.verify.gates.limits()
    budget = build.recipe.tags_for(build.key).budget
    task = build.recipe.verify.task
    scorer = _scorer(build, restructured, samples[_VERIFICATION])
    call = StageCall(
        "precision",
        [restructured.reference.digest, restructured.model.digest, statistics.digest, *_digests(samples)],
        {
            **settings,
            "gates": limits,
            "budget": budget,
            "task": None if task is None else task.model_dump(mode="json"),
            "labels": _label_digests(task),
            "sets": {name: len(found) for name, found in samples.items()},
        },
        [
            quantize,
            simulate,
            verify,
            preprocess,
            calibrate_package,
            "nnkit.graph.onnx_runtime",
            "nnkit.inputs",
            type(build.target).__module__.partition(".")[0],
        ],
        {"onnxruntime": onnxruntime.__version__},
    )
    codec = Codec(
        lambda found: {"search": json.dumps(found, ensure_ascii=False).encode()},
        lambda files: json.loads(files["search"]),
    )
    found: dict[str, Any] = cached(
        build,
        call,
        codec,
        lambda step: _search(diagnose, samples, limits, budget, scorer, where, step),
    )
    values = [row["value"] for row in found["chosen"]]
    return replace(restructured, model=with_sixteen_bits(restructured.model, values), mixed_precision=found)


def _diagnosis_of(
    build: Build, restructured: Restructured, statistics: CalibrationStats, where: str
) -> tuple[Callable[[], Diagnosis], dict[str, Any]]:
    """What measures a set of layers, and the settings that its results depend on.

    A target with an arithmetic of its own makes its own `diagnosis`; the others have a fixed-point scheme.
    """
    from nnkit.quantize.bias_correction import BIAS_CORRECTION, SAMPLES, corrected
    from nnkit.quantize.diagnose import Diagnosis
    from nnkit.stages.build_stages import quantization_of

    wanted = quantization_of(build, restructured, statistics)
    own = getattr(build.target, "diagnosis", None)
    if own is not None:
        settings = {
            "target": build.target.name,
            "options": build.options.model_dump(mode="json"),
            "calibration": wanted.calibration.model_dump(mode="json"),
        }
        return lambda: own(restructured.reference, restructured.model, wanted, build.options), settings
    if not hasattr(build.target, "scheme"):
        raise RecipeError(
            f"`hp: auto` chooses 16-bit layers, but target {build.target.name!r} has one precision only",
            where=where,
            remedy="remove `hp: auto`, or build for a target that mixes precisions",
        )
    scheme = cast("FixedPointTarget", build.target).scheme(
        build.options, wanted.calibration.headroom, wanted.input_ranges
    )
    _check_scheme(scheme, where)
    finish = None
    if BIAS_CORRECTION in (wanted.calibration.corrections or ()):

        def finish(model: Model, program: Program) -> Program:
            return corrected(model, program, wanted.samples(SAMPLES))

    depends_on: dict[str, Any] = {"scheme": scheme, "corrections": list(wanted.calibration.corrections or ())}
    return lambda: Diagnosis(restructured.reference, restructured.model, statistics, scheme, finish), depends_on


def _check_scheme(scheme: FixedPointScheme, where: str) -> None:
    if scheme.bits == 16:
        raise RecipeError(
            "`hp: auto` chooses 16-bit layers, but every layer has 16 bits already",
            where=where,
            remedy="set `precision: int8` in the target's options, or remove `hp: auto`",
        )
    if scheme.pinned is not None:
        raise RecipeError(
            "`hp: auto` chooses formats, but all are pinned",
            where=where,
            remedy="remove the pinned `formats`, or list the 16-bit layers in `tags: {hp: [...]}`",
        )


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
    return task_scorer(build.recipe, shapes, [sample.image for sample in samples])


def _label_digests(task: Task | None) -> list[str]:
    """Of the files that say what is true: another content is another search."""
    from nnkit.inputs import file_digest

    named = [getattr(task, name, None) for name in ("labels", "pairs", "boxes")]
    return [file_digest(path.existing_file("the labels")) for path in named if path is not None]


def _digests(sets: Mapping[str, Sequence[Sample]]) -> list[str]:
    import hashlib

    import numpy as np

    found = []
    for samples in sets.values():
        for sample in samples:
            state = hashlib.sha256()
            for name in sorted(sample.inputs):
                state.update(f"{name}:{sample.inputs[name].shape}".encode())
                state.update(np.ascontiguousarray(sample.inputs[name]).tobytes())
            found.append(state.hexdigest())
    return found


def _search(
    diagnose: Callable[[], Diagnosis],
    samples: Mapping[str, Sequence[Sample]],
    limits: Mapping[str, float],
    budget: int | None,
    scorer: TaskScorer | None,
    where: str,
    step: Step,
) -> dict[str, Any]:
    from nnkit.quantize.budget import as_search_result, search_budget
    from nnkit.quantize.diagnose import confirmer, measurer
    from nnkit.quantize.mixed_precision import Trial, search_confirmed
    from nnkit.report.mixed_precision import gates_in_words, search_report
    from nnkit.verify.gates import beyond_the_float_network, check_gates
    from nnkit.verify.tasks import output_pairs

    diagnosis = diagnose()
    images = [sample.image for sample in samples[_VERIFICATION]]
    count = 0
    unreachable: dict[str, GateResult] = {}

    def judge(name: str, distance: Distance, pairs: Sequence[OutputPair]) -> str:
        task = None
        measured = limits
        if name == _VERIFICATION and scorer is not None:
            task = scorer.score(*output_pairs(images, pairs))
        else:  # labels are of the verification images
            measured = {gate: limit for gate, limit in limits.items() if gate in _DISTANCES}
        gates = check_gates(measured, distance, task)
        unreachable.update({gate.name: gate for gate in beyond_the_float_network(gates)})
        return "; ".join(str(gate) for gate in gates if not gate.passed)

    def shown(trial: Trial) -> None:
        nonlocal count
        count += 1
        step.advance()
        step.say(f"trial {count}, {len(trial.layers)} layers in 16 bits, {trial.sqnr_db:.1f} dB")

    gated = judge if budget is None else None
    task_output = scorer.output if scorer is not None else None
    measure = measurer(diagnosis, samples, gated, shown, task_output)
    if budget is not None:
        result = as_search_result(search_budget(diagnosis.candidates, measure, budget), measure)
    else:
        confirm = confirmer(diagnosis, samples, judge, task_output)
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
    if not unreachable:
        return "relax the gates, use more or other calibration images, or another calibration method"
    found = ", ".join(f"{gate.name} {gate.float_value:.6g}" for gate in unreachable)
    return f"the float network itself has {found}: lower the gate, or gate the loss with `drop`"
