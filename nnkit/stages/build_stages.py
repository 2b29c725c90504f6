"""Stages from numbers to a release: quantize, plan, emit, verify."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import InternalError, ToolError
from nnkit.memory.plan import MemoryPlan
from nnkit.program import Program
from nnkit.recipe import Calibration
from nnkit.report.progress import Progress
from nnkit.samples import Sample
from nnkit.stages.given_files import needs_ranges, verification_inputs
from nnkit.stages.task import task_judge
from nnkit.stages.types import Artifact, Build, Restructured, Settled, Verdict, returned
from nnkit.target import Deployment, Lowered, Quantization, Runner
from nnkit.verify.artifact import ArtifactVerdict
from nnkit.visible import joined

_STRESS_INPUTS = 2  # full-range inputs beside the real ones, so that saturation and extremes are compared too


@dataclass(frozen=True, eq=False)
class Case:
    """One set of inputs of the Program and its outputs for them, stored values."""

    inputs: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, NDArray[Any]]


def correct(build: Build, settled: Settled, statistics: CalibrationStats) -> tuple[Settled, CalibrationStats]:
    """The network with the corrections of its float weights, and its statistics.

    With `hp: auto` only those that the recipe asks for: the layers were chosen by the network as it is.
    """
    wanted = quantization_of(build, settled.lowered, statistics)
    if settled.search is not None and wanted.calibration.corrections is None:
        return settled, statistics
    make = build.target.float_correction(settled.lowered, build.options, wanted.calibration)
    if make is None:
        return settled, statistics
    with build.progress.stage("correct") as step:
        made = make(replace(wanted, say=step.say))
        return replace(settled, lowered=made.lowered), made.statistics


def quantize(build: Build, settled: Settled, statistics: CalibrationStats) -> Program:
    """Ranges to formats, weights to stored values; limits and the recipe's CPU stages are checked on the result."""
    from nnkit.postprocess.from_recipe import stages_of
    from nnkit.quantize import unproven

    with build.progress.stage("quantize") as step:
        wanted = quantization_of(build, settled.lowered, statistics)
        wanted = replace(wanted, searched=settled.search is not None, say=step.say)
        program = returned(build, "quantize", build.target.quantize(settled.lowered, wanted, build.options), Program)
        program = replace(program, notes=(*program.notes, *build.target.beyond_the_chip(build.options)))
        build.target.check(program, build.options)
        if build.target.writes_postprocess:
            stages_of(build.recipe, program)
        open_proofs = len(unproven(program))
        count = len(program.ops)
        unproved = f", {open_proofs} unproven" if open_proofs else ""
        step.detail = f"{count} {'op' if count == 1 else 'ops'}{unproved}"
        for note in program.notes:
            build.progress.note(note)
        return program


def quantization_of(build: Build, lowered: Lowered, statistics: CalibrationStats) -> Quantization:
    """What the target's quantiser gets. Raises RecipeError for corrections that the target does not offer."""
    from nnkit.inputs import image_inputs, input_ranges
    from nnkit.target import check_corrections

    check_corrections(build.recipe, build.key, build.target)
    return Quantization(
        name=build.recipe.name,
        statistics=statistics,
        calibration=_with_the_method_of(statistics, build.recipe.calibration_for(build.key)),
        input_ranges=input_ranges(build.recipe, lowered.model),
        samples=_calibration_samples(build, lowered, statistics),
        images=image_inputs(build.recipe, lowered.model),
        task_judge=task_judge(build, lowered.model),
    )


def _with_the_method_of(statistics: CalibrationStats, settings: Calibration) -> Calibration:
    """The settings with the method that was chosen; with any other where no method made the ranges."""
    from nnkit.calibrate.methods import METHODS

    method = statistics.method if statistics.method in METHODS else settings.method
    return settings.model_copy(update={"method": method if method in METHODS else "max"})


def _calibration_samples(
    build: Build, lowered: Lowered, statistics: CalibrationStats
) -> Callable[[int], Sequence[Sample]]:
    """The first so many calibration inputs, preprocessed; none where the recipe names no images."""
    from nnkit.inputs import calibration_samples

    recipe, model = build.recipe, lowered.model
    inputs = recipe.model.inputs
    given = all(spec.name in inputs and inputs[spec.name].calibration is not None for spec in model.inputs)
    skipped = [image.name for image in statistics.skipped]

    def samples(count: int) -> Sequence[Sample]:
        return calibration_samples(recipe, model, count, skipped) if given else []

    return samples


def plan(build: Build, settled: Settled, statistics: CalibrationStats, program: Program) -> MemoryPlan:
    """Place every buffer. What the plan claims is held to it; that nothing live is overwritten, the target proves.

    Raises DoesNotFitError, for what the plan does not place too, and ToolError for a plan that contradicts itself.
    """
    from nnkit.memory.claims import check_claims

    with build.progress.stage("plan") as step:
        made = returned(build, "plan", build.target.plan(settled.lowered, program, build.options), MemoryPlan)
        try:
            check_claims(program, made)
        except InternalError as error:
            raise ToolError(
                joined(f"the target {build.key!r} made a memory plan that cannot be: {error.where}: ", error.reason),
                where=build.recipe.name,
                remedy="this is a mistake of the target's plugin: report it to who provides it",
            ) from error
        if build.alone:
            quiet = replace(build, progress=Progress(quiet=True, stream=None))
            build.target.check_room(
                program,
                made,
                build.options,
                lambda options: quantize(replace(quiet, options=options), settled, statistics),
            )
        step.detail = ", ".join(f"{name} {use.in_words}" for name, use in made.regions.items())
        return made


def emit(
    build: Build,
    settled: Settled,
    statistics: CalibrationStats,
    program: Program,
    plan: MemoryPlan,
    folder: Path,
) -> Artifact:
    """Write the artifact's files."""
    with build.progress.stage("emit") as step:
        place = folder / "artifact"
        place.mkdir()
        deployment = Deployment(
            recipe=build.recipe,
            lowered=settled.lowered,
            statistics=statistics,
            program=program,
            plan=plan,
            samples=_calibration_samples(build, settled.lowered, statistics),
            say=step.say,
        )
        build.target.emit(deployment, build.options, place)
        count = sum(1 for p in place.rglob("*") if p.is_file())
        step.detail = f"{count} file{'s' if count != 1 else ''}"
        return Artifact(folder, place, deployment)


def verify(build: Build, restructured: Restructured, artifact: Artifact) -> Verdict:
    """Float against Program, Program against what the artifact computes, and the recipe's gates."""
    from nnkit.drawn_inputs import DrawnSamples
    from nnkit.inputs import seen_by_calibration
    from nnkit.program.inputs import quantized_inputs, stress_inputs
    from nnkit.simulate import simulate
    from nnkit.verify.constant_outputs import doubts_of_outputs
    from nnkit.verify.float_vs_program import compare_with_float
    from nnkit.verify.gates import check_gates
    from nnkit.verify.status import required_runners, status_of
    from nnkit.verify.store import store_pictures, store_samples
    from nnkit.verify.tasks import output_pairs, task_scorer

    program = artifact.deployment.program
    samples = verification_inputs(build, restructured.model, artifact.deployment.lowered)
    images = samples.images
    drawn = {name: each.words for name, each in samples.draws.items()} if isinstance(samples, DrawnSamples) else {}
    rests = needs_ranges(build, artifact.deployment.lowered)  # otherwise no input is known or new to its numbers
    seen = seen_by_calibration(build.recipe, restructured.model, images) if rests and not drawn else 0
    shapes = {name: program.tensors[name].shape for name in (*program.inputs, *program.outputs)}
    planes = [shapes[name] for name in program.inputs]
    scorer = task_scorer(build.recipe, {name: shapes[name] for name in program.outputs}, planes, images)
    with build.progress.stage("verify float", len(samples)) as step:
        floats = compare_with_float(
            restructured.reference,
            restructured.model,
            program,
            samples,
            read=scorer.read if scorer is not None else None,
            ranges=artifact.deployment.statistics.ranges if rests else None,
            choice=build.executor,
            progress=step.advance,
        ).without_constant_outputs(program)
        task = scorer.score(*output_pairs(images, floats.task_values)) if scorer is not None else None
        step.detail = floats.outputs.in_words
        if task is not None and task.kind == "detection":
            step.detail = ", ".join(f"{metric.name.replace('_', ' ')} {metric.value:.4f}" for metric in task.metrics)
    kept = samples[: len(floats.simulated)]  # what the artifact is run on too
    store_samples(artifact.build_folder / "verify", program, kept, floats.simulated)
    _store_detections(build, artifact, floats.simulated, samples.picture)
    worst = {error.index: samples.picture(error.index) for error in floats.worst}
    shown = {index: picture for index, picture in worst.items() if picture is not None}
    pictures = store_pictures(artifact.build_folder / "verify", shown)
    real = [
        Case(quantized_inputs(program, sample), outputs)
        for sample, outputs in zip(kept, floats.simulated, strict=True)
    ]
    runners = build.target.runners(build.options)
    exact = any(runner.contract == "exact" for runner in runners)
    inputs = stress_inputs(program, _STRESS_INPUTS) if exact else []
    stress = [Case(given, simulate(program, given)) for given in inputs]
    verdicts = [_run(build, runner, artifact, real, stress) for runner in runners]
    unproven_outputs = "; ".join(doubts_of_outputs(floats.constant, floats.samples))
    gates = check_gates(build.recipe.verify.gates.limits(), floats.outputs, task, unproven_outputs)
    required = required_runners(build.recipe.verify.require, verdicts)
    status = status_of(gates, verdicts, required)
    return Verdict(floats, tuple(verdicts), gates, required, status, seen, task, pictures, drawn)


def _store_detections(
    build: Build,
    artifact: Artifact,
    outputs: Sequence[Mapping[str, NDArray[Any]]],
    picture: Callable[[int], NDArray[np.uint8] | None],
) -> None:
    """Pictures of the boxes that the recipe's `ssd`, `nms` or `yolo` makes of the Program's outputs."""
    from nnkit.postprocess.from_recipe import stages_of
    from nnkit.verify.detection_pictures import store_detections
    from nnkit.verify.tasks.stage_boxes import StageBoxes

    if not build.target.writes_postprocess:
        return
    stages = stages_of(build.recipe, artifact.deployment.program)
    for written, stage in zip(build.recipe.postprocess, stages, strict=True):
        if written.kind == "ssd" or written.kind == "nms" or written.kind == "yolo":
            names = StageBoxes(written).outputs
            store_detections(artifact.build_folder / "verify", stage, names, outputs, picture)


def _run(build: Build, runner: Runner, artifact: Artifact, real: list[Case], stress: list[Case]) -> ArtifactVerdict:
    from nnkit.verify.artifact import compare_artifact

    if runner.emulated and not build.emulate:
        with build.progress.stage(f"verify {runner.name}") as step:
            step.detail = "not run (--no-qemu)"
        return ArtifactVerdict(runner.name, "not_run", reason="skipped by --no-qemu")
    missing = runner.missing()
    if missing is not None:
        with build.progress.stage(f"verify {runner.name}") as step:
            step.detail = f"NOT RUN: {missing}"
        return ArtifactVerdict(runner.name, "not_run", reason=missing)
    cases = [*real[:1], *stress[:1]] if runner.emulated else [*real, *stress]
    if runner.contract != "exact":
        cases = real[:1] if runner.emulated else real
    with build.progress.stage(f"verify {runner.name}") as step:
        verdict = compare_artifact(
            runner,
            artifact.folder,
            artifact.deployment.program,
            [case.inputs for case in cases],
            traced=0 if runner.emulated else 1,
            outputs=[case.outputs for case in cases],
        )
        if not verdict.ran:
            step.detail = f"not run: {verdict.reason}"
            return verdict
        if verdict.note:
            build.progress.note(verdict.note)
        beyond = " by more than their bound" if verdict.contract == "bounded" else ""
        step.detail = f"{verdict.mismatches} of {verdict.values:,} values differ{beyond}"
        if verdict.instructions is not None:
            step.detail += f", {verdict.instructions:,} instructions"
        if "cycles" in verdict.measured:
            step.detail += f", {verdict.measured['cycles']:,} cycles"
        return verdict
