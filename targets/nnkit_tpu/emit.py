"""The artifact: what the compiler reads, the plan of layer groups with its proof, the model, and how to run it.

Without the toolchain everything but the model is written, and `build.json` says why.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nnkit.calibrate.stats import ValueRange
from nnkit.errors import ToolError
from nnkit.inputs import image_inputs
from nnkit.program import Program
from nnkit.target import Deployment
from nnkit_tpu.compile import (
    QTABLE,
    TABLE,
    TOP_MLIR,
    TOP_WEIGHTS,
    Compiled,
    CompileOptions,
    compile_graph,
    lower_graph,
    model_file,
    model_names,
    write_model,
    write_sources,
)
from nnkit_tpu.grouping import choose_groups, own_plan
from nnkit_tpu.mlir_reader import disagreements, read_lowered
from nnkit_tpu.options import TpuOptions
from nnkit_tpu.pixels import pixel_inputs
from nnkit_tpu.program import Mode, TpuOp
from nnkit_tpu.quantize import graph_of, other_modes, table_ranges
from nnkit_tpu.release import write_runners
from nnkit_tpu.toolchain import Toolchain, find_toolchain, require_toolchain
from nnkit_tpu.top_mlir import PixelInput

BUILD_FILE = "build.json"
SOURCES, COMPILED, TRACED = "sources", "compiled", "traced"
MODES: Mapping[str, Mode] = {"int8": "INT8", "f16": "F16", "bf16": "BF16"}


def compile_options(options: TpuOptions, pixels: Mapping[str, PixelInput]) -> CompileOptions:
    """The compiler's options of a recipe's. pixels: by input, those that the model takes as pixels."""
    return CompileOptions(
        options.chip, MODES[options.precision], options.quant_input, options.quant_output, options.cores, pixels
    )


def emit_artifact(deployment: Deployment, options: TpuOptions, folder: Path) -> None:
    """Write the artifact into an empty folder. Raises ToolError where the compiler fails."""
    program = deployment.program
    graph = graph_of(program)
    pixels = pixel_inputs(graph.inputs, image_inputs(deployment.recipe, deployment.model), options)
    how = compile_options(options, pixels)
    ranges = table_ranges(graph, deployment.statistics.ranges, options.chip) if how.mode == "INT8" else None
    modes = other_modes(program, how.mode)
    (folder / SOURCES).mkdir()
    names = model_names(write_sources(graph, how, folder / SOURCES, ranges=ranges, modes=modes).locations, how)
    build: dict[str, Any] = {
        "chip": options.chip,
        "precision": options.precision,
        "quant_input": options.quant_input,
        "quant_output": options.quant_output,
        "pixels": {name: asdict(each) for name, each in pixels.items()},
        "names": names,
        "plan": own_plan(graph, options.chip),
        "compiled": False,
    }
    toolchain = find_toolchain(options.toolchain)
    if toolchain is None:
        build["not_compiled"] = _why_not(options)
    else:
        build |= _compile(toolchain, program, options, how, ranges, folder)
    write_runners(deployment, options, build, folder)
    (folder / BUILD_FILE).write_text(json.dumps(build, indent=1) + "\n", encoding="utf-8")


def read_build(artifact: Path) -> dict[str, Any]:
    """What `emit_artifact` noted. Raises ToolError where it cannot be read."""
    try:
        found: dict[str, Any] = json.loads((artifact / BUILD_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ToolError(
            "the artifact is not complete", where=str(artifact / BUILD_FILE), remedy="run `nnkit build` again"
        ) from error
    return found


def _why_not(options: TpuOptions) -> str:
    try:
        require_toolchain(options.toolchain)
    except ToolError as error:
        return f"{error.reason}: {error.remedy}"
    return ""


def _compile(
    toolchain: Toolchain,
    program: Program,
    options: TpuOptions,
    how: CompileOptions,
    ranges: Mapping[str, ValueRange] | None,
    folder: Path,
) -> dict[str, Any]:
    """Model, traced model, and what the compiler says of them."""
    graph = graph_of(program)
    modes = other_modes(program, how.mode)
    with tempfile.TemporaryDirectory(prefix="nnkit-tpu-") as temporary:
        work = Path(temporary)
        lowered = lower_graph(toolchain, graph, how, work, ranges=ranges, modes=modes)
        (work / "groups").mkdir()
        choice = choose_groups(toolchain, lowered.ready, options, work / "groups", graph)
        compiled = write_model(lowered, choice.outcome, how, work)
        found: dict[str, Any] = {
            "compiled": True,
            "model": model_file(options.chip),
            "compiler": {"name": "tpu_mlir", "version": toolchain.version, "source": toolchain.source},
            "layer_groups": choice.report,
        }
        if how.mode == "INT8":
            found["prediction"] = _prediction(program, compiled, how.fuse_preprocess)
        shutil.copyfile(compiled.model, folder / compiled.model.name)
        (folder / COMPILED).mkdir()
        for file in (lowered.mlir, choice.final):
            if file.exists():
                shutil.copyfile(file, folder / COMPILED / file.name)
        if options.trace:
            (folder / TRACED).mkdir()
            traced = replace(graph, outputs=tuple(op.output for op in program.ops if isinstance(op, TpuOp)))
            inner = work / "traced"
            inner.mkdir()
            plain = replace(how, quant_output=False, cores=1)
            made = compile_graph(toolchain, traced, plain, inner, ranges=ranges, modes=modes, search=False)
            shutil.copyfile(made.model, folder / TRACED / made.model.name)
    return found


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
