"""The artifact: Caffe pair, cfg, calibration data, segments, test cases, CPU code, script, compiled network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nnkit.errors import ModelError
from nnkit.inputs import calibration_files, preprocess_by_input
from nnkit.preprocess.files import spread
from nnkit.recipe import Recipe
from nnkit.target import Deployment
from nnkit_nnie.board import board_sources
from nnkit_nnie.caffe_pair import CaffePair, caffe_pair, safe_name
from nnkit_nnie.calibration_images import check_referenced, count_note, write_inputs
from nnkit_nnie.cfg import environment, render_cfg
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.description import description
from nnkit_nnie.input_settings import InputSettings, doubled_normalization, input_settings
from nnkit_nnie.limits import limits_of
from nnkit_nnie.mapper import MapperRun, find_mapper, no_mapper, run_mapper
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.precision import suggestion
from nnkit_nnie.segments import Network
from nnkit_nnie.subgraph import subgraph
from nnkit_nnie.testcases import random_sample, write_testcase

BUILD_FILE = "build.json"
"""What this nnkit has to know of the artifact later: names of files, and whether it was compiled."""

LAST_CALIBRATION = "calibration_last"
"""Name of the test case that holds the last image of the mapper's list."""


def last_calibration_file(name: str) -> str:
    """File of an input of the last calibration image: real values, as the network gets them."""
    return f"{LAST_CALIBRATION}_{safe_name(name)}.npy"


@dataclass(frozen=True)
class ArtifactFiles:
    """Names in the artifact's folder."""

    stem: str

    @property
    def prototxt(self) -> str:
        """The network's layers."""
        return f"{self.stem}.prototxt"

    @property
    def caffemodel(self) -> str:
        """Its weights."""
        return f"{self.stem}.caffemodel"

    @property
    def cfg(self) -> str:
        """The mapper's only argument."""
        return f"{self.stem}.cfg"


def settings_of(recipe: Recipe, network: Network, options: NnieOptions) -> tuple[InputSettings, ...]:
    """The inputs as recipe and options deliver them."""
    model = network.graph.model
    preprocess = preprocess_by_input(recipe, model)
    written = recipe.model.inputs
    from_images = {
        spec.name: spec.name in written and written[spec.name].preprocess is not None for spec in model.inputs
    }
    return input_settings(model.inputs, preprocess, from_images, options, limits_of(options.chip))


def emit_artifact(deployment: Deployment, network: Network, options: NnieOptions, folder: Path) -> None:
    """Write the artifact into an empty folder, and compile it where a mapper is at hand.

    Raises ModelError, RecipeError for what cannot be written, ToolError where the mapper fails.
    """
    recipe = deployment.recipe
    files = ArtifactFiles(safe_name(recipe.name))
    settings = settings_of(recipe, network, options)
    pair = caffe_pair(network, recipe.name)
    (folder / files.prototxt).write_text(pair.prototxt, encoding="utf-8")
    (folder / files.caffemodel).write_bytes(pair.caffemodel)
    notes = [*network.notes, *pair.notes, *doubled_normalization(network.graph, settings)]
    advice = suggestion(network, options.compile_mode)
    notes += [advice] if advice is not None else []
    notes += _write_cfg(deployment, network, settings, options, files, folder)
    sources = _write_cpu_segments(network, folder)
    board = board_sources(network, deployment.program, pair, settings, sources, files.stem)
    if board:
        (folder / "board").mkdir()
        for name, text in board.items():
            (folder / "board" / name).write_text(text, encoding="utf-8")
    else:
        notes.append("no board/: a CPU segment reads an image, which only the chip normalises")
    data = description(network, deployment.program, pair, settings, options, sources)
    (folder / "segments.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    _write_testcases(deployment, network, settings, options, folder)
    _write_texts(deployment, network, settings, options, files, folder, notes)
    compiled = _compile(network, options, files, folder)
    _write_build_file(files, pair, options, compiled, notes, folder)


def _write_cfg(
    deployment: Deployment,
    network: Network,
    settings: tuple[InputSettings, ...],
    options: NnieOptions,
    files: ArtifactFiles,
    folder: Path,
) -> list[str]:
    """The cfg and the files that it names; returns notes."""
    recipe, model = deployment.recipe, network.graph.model
    referenced: Mapping[str, list[Path]] | None = None
    if options.image_list == "reference":
        check_referenced(preprocess_by_input(recipe, model))
        listed = calibration_files(recipe, model)
        referenced = {name: spread(paths, options.image_count) for name, paths in listed.items()}
    samples = deployment.samples(options.image_count)
    inputs = write_inputs(settings, samples, referenced, folder)
    roi_files = []
    for index, path in enumerate(options.roi_coordinate_files):
        name = f"roi_{index}.txt"
        shutil.copyfile(path.existing_file("the ROI coordinates"), folder / name)
        roi_files.append(f"./{name}")
    if options.gfpq_param_file is not None:
        shutil.copyfile(options.gfpq_param_file.existing_file("the GFPQ parameters"), folder / "gfpq_param.txt")
    text = render_cfg(network, inputs, options, stem=f"./{files.stem}", roi_files=roi_files)
    (folder / files.cfg).write_text(text, encoding="utf-8")
    note = count_note(len(samples))
    return [note] if note is not None else []


def _write_cpu_segments(network: Network, folder: Path) -> dict[int, str]:
    """Generated C of each CPU segment that nnkit can write, in `cpu/`; function names by segment index.

    Raises ModelError naming every layer for which there is no C.
    """
    from nnkit.cpu_segments import emit_segment

    functions: dict[int, str] = {}
    refused: list[str] = []
    for segment in network.segments:
        if segment.placement != "cpu":
            continue
        name = f"segment{segment.index}"
        model = subgraph(
            network.graph, [node for layer in segment.layers for node in layer.nodes], segment.inputs, segment.outputs
        )
        place = folder / "cpu" / name
        try:
            emit_segment(model, name, place)
        except ModelError as error:
            refused.append(f"segment {segment.index}: {error.reason}")
            continue
        functions[segment.index] = name
    if refused:
        raise ModelError(
            "no C can be generated for the CPU: " + "; ".join(refused),
            remedy="replace these layers, or cut the network before them",
        )
    return functions


def _write_testcases(
    deployment: Deployment,
    network: Network,
    settings: tuple[InputSettings, ...],
    options: NnieOptions,
    folder: Path,
) -> None:
    cases = [("random", random_sample(settings)), *(("real", sample) for sample in deployment.samples(1))]
    for name, sample in cases:
        write_testcase(folder / "testcase" / name, network, deployment.program, settings, sample)
    listed = deployment.samples(options.image_count)
    if listed:  # what the mapper dumps is of the last one
        for name, values in listed[-1].inputs.items():
            np.save(folder / "testcase" / last_calibration_file(name), values)


def _write_texts(
    deployment: Deployment,
    network: Network,
    settings: tuple[InputSettings, ...],
    options: NnieOptions,
    files: ArtifactFiles,
    folder: Path,
    notes: list[str],
) -> None:
    chip, env = CHIPS[options.chip], environment()
    values: dict[str, Any] = {
        "name": deployment.recipe.name,
        "chip": chip,
        "files": files,
        "instruction_name": options.instruction_name,
        "segments": network.segments,
        "settings": settings,
        "notes": notes,
    }
    script = folder / "compile.sh"
    script.write_text(env.get_template("compile.sh.j2").render(values), encoding="utf-8")
    script.chmod(0o755)
    (folder / "README.md").write_text(env.get_template("README.md.j2").render(values), encoding="utf-8")


def _compile(network: Network, options: NnieOptions, files: ArtifactFiles, folder: Path) -> MapperRun | None:
    """Run the mapper where it is found and wanted."""
    program = find_mapper(options) if options.mapper.run else None
    if program is None:
        return None
    npu = sum(1 for segment in network.segments if segment.placement == "npu")
    return run_mapper(
        program,
        folder,
        files.cfg,
        options.instruction_name,
        (npu, len(network.segments)),
        options.mapper.timeout_s,
    )


def _write_build_file(
    files: ArtifactFiles,
    pair: CaffePair,
    options: NnieOptions,
    compiled: MapperRun | None,
    notes: list[str],
    folder: Path,
) -> None:
    why = (
        no_mapper(CHIPS[options.chip]) if options.mapper.run else "never compiled: the recipe says mapper.run: false"
    )
    data = {
        "stem": files.stem,
        "blobs": dict(pair.blobs),
        "layers": {name: list(written) for name, written in pair.layers.items()},
        "compiled": None
        if compiled is None
        else {
            "mapper": compiled.program,
            "wk": compiled.wk_path.name,
            "wk_bytes": compiled.wk.size_bytes,
            "wk_segments": compiled.wk.segments,
            "stages": list(compiled.stages),
            "warnings": list(compiled.warnings),
        },
        "not_compiled": why if compiled is None else "",
        "notes": notes,
    }
    (folder / BUILD_FILE).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def read_build_file(folder: Path) -> dict[str, Any]:
    """The artifact's `build.json`."""
    data: dict[str, Any] = json.loads((folder / BUILD_FILE).read_text(encoding="utf-8"))
    return data
