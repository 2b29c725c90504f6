"""The artifact: what the compiler reads, the estimate of layer groups, the model, and how to run it.

Without the toolchain everything but the model is written, and `build.json` says why.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ToolError
from nnkit.external_tool import check_not_interrupted, one_beside
from nnkit.inputs import image_inputs
from nnkit.program import Program
from nnkit.program.inputs import quantized_inputs
from nnkit.target import Deployment
from nnkit_tpu import quantized
from nnkit_tpu.artifact_files import BUILD_FILE, COMPILED, SOURCES
from nnkit_tpu.batch import with_batch
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.combined import COMBINED, combine
from nnkit_tpu.compile import (
    QTABLE,
    TABLE,
    TOP_MLIR,
    TOP_WEIGHTS,
    Compiled,
    CompileOptions,
    lower_graph,
    model_file,
    model_names,
    write_model,
    write_sources,
)
from nnkit_tpu.exactness import not_as_simulated
from nnkit_tpu.grouping import choose_groups, own_plan, without_wrong_groups
from nnkit_tpu.layer_group.injection import Outcome
from nnkit_tpu.lowered import TpuLowered
from nnkit_tpu.mlir_reader import disagreements, read_lowered
from nnkit_tpu.model_run import run_model
from nnkit_tpu.model_version import model_version
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.pixels import pixel_inputs
from nnkit_tpu.program import Mode
from nnkit_tpu.quantize import graph_of, other_modes, table_ranges
from nnkit_tpu.release import write_runners
from nnkit_tpu.thresholds import fitted
from nnkit_tpu.toolchain import Toolchain, check_version, find_toolchain, require_toolchain
from nnkit_tpu.toolchain.workspace import compiler_folder
from nnkit_tpu.top_mlir import PixelInput
from nnkit_tpu.traced import Tracing, kept_traced

_IMAGES = 4  # of a batch that are simulated; the others repeat them
MODES: Mapping[str, Mode] = {"int8": "INT8", "f16": "F16", "bf16": "BF16"}


def compile_options(options: TpuOptions, pixels: Mapping[str, PixelInput]) -> CompileOptions:
    """The compiler's options of a recipe's. pixels: by input, those that the model takes as pixels."""
    return CompileOptions(
        options.chip,
        MODES[options.precision],
        options.quant_input,
        options.quant_output,
        options.cores,
        pixels,
        options.model_version,
        options.batch,
    )


def emit_artifact(deployment: Deployment[TpuLowered], options: TpuOptions, folder: Path) -> None:
    """Write the artifact into an empty folder. Raises ToolError where the compiler fails."""
    program = deployment.program
    graph = graph_of(program)
    pixels = pixel_inputs(graph.inputs, image_inputs(deployment.recipe, deployment.lowered.model), options)
    how = compile_options(options, pixels)
    ranges, modes = None, other_modes(program, how.mode)
    if deployment.lowered.keeps_integers:
        how = replace(how, zero_points=True)
        ranges, modes = quantized.table_ranges(deployment.lowered.graph), quantized.other_modes(program)
    elif how.mode == "INT8":
        known = fitted(deployment.lowered.graph, deployment.statistics, always_signed=options.chip in CV_CHIPS).ranges
        ranges = table_ranges(graph, known, options.chip)
    (folder / SOURCES).mkdir()
    names = model_names(write_sources(graph, how, folder / SOURCES, ranges=ranges, modes=modes).locations, how)
    build: dict[str, Any] = {
        "chip": options.chip,
        "precision": options.precision,
        "quant_input": options.quant_input,
        "quant_output": options.quant_output,
        "batch": options.batch,
        "pixels": how.pixels_as_built,
        "names": names,
        "compiled": False,
    }
    toolchain = find_toolchain(options.toolchain)
    with one_beside() as beside:  # the compiler is a process: it leaves this one idle
        plan = beside.submit(own_plan, with_batch(graph, options.batch), options.chip, check_not_interrupted)
        if toolchain is None:
            build["not_compiled"] = _why_not(options)
        else:
            check_version(toolchain)
            toolchain = replace(toolchain, timeout_s=options.compiler_timeout_s)
            build |= _compile(toolchain, deployment, options, how, ranges, modes, folder, beside)
        build["plan"] = plan.result()
    write_runners(deployment, options, build, folder)
    (folder / BUILD_FILE).write_text(json.dumps(build, indent=1) + "\n", encoding="utf-8")


def _why_not(options: TpuOptions) -> str:
    try:
        require_toolchain(options.toolchain)
    except ToolError as error:
        return f"{error.reason}: {error.remedy}"
    return ""


def _compile(
    toolchain: Toolchain,
    deployment: Deployment[TpuLowered],
    options: TpuOptions,
    how: CompileOptions,
    ranges: Mapping[str, ValueRange] | None,
    modes: Mapping[str, str],
    folder: Path,
    beside: Executor,
) -> dict[str, Any]:
    """Model, traced model, and what the compiler says of them. beside: makes the traced model meanwhile."""
    program = deployment.program
    graph = graph_of(program)
    with compiler_folder() as work:
        traced = None
        if options.trace:
            samples = deployment.samples(1)
            given = quantized_inputs(program, samples[0]) if samples else None
            (work / "traced").mkdir()
            tracing = Tracing(program, graph, options, how, ranges, modes, given)
            traced = beside.submit(tracing.compiled, toolchain, work / "traced")
        deployment.say("the compiler lowers the network")
        lowered = lower_graph(toolchain, graph, how, work, ranges=ranges, modes=modes)
        (work / "groups").mkdir()
        deployment.say("the compiler looks for layer groups")
        choice = choose_groups(toolchain, lowered.ready, options, work / "groups")
        compiled = write_model(lowered, choice.outcome, how, work)
        wrong = _computed_otherwise(toolchain, deployment, compiled, how) if options.trace else ""
        if wrong:
            deployment.say("the compiler without the layer groups that are wrong")
            (work / "trial").mkdir()

            def is_wrong(outcome: Outcome) -> bool:
                trial = write_model(lowered, outcome, how, work / "trial")
                return bool(_computed_otherwise(toolchain, deployment, trial, how))

            choice = without_wrong_groups(toolchain, choice, options, work / "right", wrong, is_wrong)
            compiled = write_model(lowered, choice.outcome, how, work)
        build: dict[str, Any] = {
            "compiled": True,
            "model": model_file(options.chip),
            "compiler": {"name": "tpu_mlir", "version": toolchain.version, "source": toolchain.source},
            "layer_groups": choice.report,
        }
        if how.mode == "INT8":
            build["prediction"] = _prediction(program, compiled, how.fuse_preprocess)
        shutil.copyfile(compiled.model, folder / compiled.model.name)
        build["model_version"] = model_version(compiled.model.read_bytes())
        if options.combine:
            deployment.say("the models that are combined")
            build["combined"] = _combined(toolchain, deployment, options, compiled, how, folder)
        (folder / COMPILED).mkdir()
        for file in (lowered.mlir, choice.final):
            if file.exists():
                shutil.copyfile(file, folder / COMPILED / file.name)
        if traced is not None:
            deployment.say("the traced model")
            build["traced"] = kept_traced(traced, folder)
    return build


def _combined(
    toolchain: Toolchain,
    deployment: Deployment[TpuLowered],
    options: TpuOptions,
    compiled: Compiled,
    how: CompileOptions,
    folder: Path,
) -> dict[str, Any]:
    """The bmodel of several networks, held to this network's own outputs where there is a calibration input."""
    others = [path.existing_file("the model to combine with") for path in options.combine]
    recipe = deployment.recipe
    names = combine(toolchain, compiled.model, others, folder / COMBINED, where=recipe.where("targets"))
    program, samples = deployment.program, deployment.samples(1)
    if samples:
        given = [quantized_inputs(program, samples[0])]
        alone, together = (
            run_model(toolchain, model, program, _as_built(compiled, how), given, program.outputs)[0]
            for model in (compiled.model, folder / COMBINED)
        )
        wrong = [name for name in program.outputs if not np.array_equal(alone[name], together[name])]
        if wrong:
            raise ToolError(
                f"in the combined model {wrong[0]!r} is not what the model alone gives",
                where=COMBINED,
                remedy="leave out `combine`, and load the models one by one",
            )
    alone_bytes = sum(path.stat().st_size for path in (compiled.model, *others))
    return {
        "model": COMBINED,
        "networks": names,
        "bytes": (folder / COMBINED).stat().st_size,
        "bytes_one_by_one": alone_bytes,
        "compared": bool(samples),
    }


def _as_built(compiled: Compiled, how: CompileOptions) -> dict[str, Any]:
    """What `run_model` has to know of the model."""
    return {"chip": how.chip, "names": compiled.locations, "pixels": how.pixels_as_built, "batch": how.batch}


def _computed_otherwise(
    toolchain: Toolchain, deployment: Deployment[TpuLowered], compiled: Compiled, how: CompileOptions
) -> str:
    """What the model computes otherwise than simulated on calibration inputs, in every image of its batch; empty
    where it is right, or where there is no such input.

    The audit sees what becomes of local memory, not what the compiler's code does there.
    """
    program, samples = deployment.program, deployment.samples(min(how.batch, _IMAGES))
    if not samples:
        return ""
    given = [quantized_inputs(program, samples[index % len(samples)]) for index in range(how.batch)]
    several = run_model(toolchain, compiled.model, program, _as_built(compiled, how), given, program.outputs)
    return not_as_simulated(program, how.chip, given[: len(samples)], several)


def _prediction(program: Program, compiled: Compiled, pixels: Mapping[str, PixelInput]) -> dict[str, Any]:
    """Predicted scales, multipliers, shifts, weights, biases and tables against the compiler's."""
    text = compiled.lowered_mlir.read_text(encoding="utf-8")
    wrong, compared = disagreements(program, read_lowered(text), compiled.lowered_weights, compiled.locations, pixels)
    return {
        "layers": compared,
        "disagreements": [{"layer": each.layer, "what": each.what} for each in wrong],
    }


def source_files(folder: Path) -> list[str]:
    """The compiler's inputs that were written, by name."""
    return [name for name in (TOP_MLIR, TOP_WEIGHTS, TABLE, QTABLE) if (folder / SOURCES / name).exists()]
