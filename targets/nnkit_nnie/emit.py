"""The artifact: Caffe pair, cfg, calibration data, segments, test cases, CPU code, script, compiled network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nnkit.c.text import identifier
from nnkit.errors import InternalError
from nnkit.generated import write_sources
from nnkit.inputs import image_inputs
from nnkit.reading import read_json_object
from nnkit.samples import Sample
from nnkit.target import Deployment
from nnkit_nnie.board.description import description, network_of
from nnkit_nnie.board.program import board_program
from nnkit_nnie.board.run_c import board_sources, frames_as_they_come, frames_on_the_cpu
from nnkit_nnie.board.testcases import random_sample, write_testcase
from nnkit_nnie.chips import CHIPS
from nnkit_nnie.front import samples_behind_front
from nnkit_nnie.lowered import NnieLowered
from nnkit_nnie.mapper.caffe_pair import all_names, safe_name
from nnkit_nnie.mapper.cfg import environment
from nnkit_nnie.mapper.input_settings import InputSettings, doubled_normalization, settings_of
from nnkit_nnie.mapper.network_files import NetworkFiles, compile_network, described, write_network
from nnkit_nnie.network import Network
from nnkit_nnie.options import NnieOptions
from nnkit_nnie.parts import Part, settings_of_part
from nnkit_nnie.precision import suggestion
from nnkit_nnie.stn.calibration import net_samples, part_program

BUILD_FILE = "build.json"
"""What this nnkit has to know of the artifact later: names of files, and whether it was compiled."""

LAST_CALIBRATION = "calibration_last"
"""Name of the test case that holds the last image of the mapper's list."""


def last_calibration_file(name: str) -> str:
    """File of an input of the last calibration image: real values, as the network gets them."""
    return f"{LAST_CALIBRATION}_{safe_name(name)}.npy"


def emit_artifact(deployment: Deployment[NnieLowered], options: NnieOptions, folder: Path) -> None:
    """Write the artifact into an empty folder, and compile it where a mapper is at hand.

    Raises ModelError, RecipeError for what cannot be written, ToolError where the mapper fails.
    """
    stem = safe_name(deployment.recipe.name)
    network, parts = deployment.lowered.network, deployment.lowered.parts
    settings = settings_of(deployment.recipe, network, options)
    fed = _samples(parts, deployment, options)
    pictures = image_inputs(deployment.recipe, network.graph.model)
    of_inputs = [*doubled_normalization(network.graph, settings), *frames_as_they_come(settings, pictures)]
    notes = [*network.notes, *of_inputs]
    advice = suggestion(network, options.compile_mode)
    notes += [advice] if advice is not None else []
    if len(parts) > 1:
        notes.append(f"net is calibrated on images that the {options.net_calibration} STN aligned")
    written: list[NetworkFiles] = []
    for part, samples in zip(parts, fed, strict=True):
        files, said = write_network(
            part, settings_of_part(part, settings), samples, deployment, options, stem, folder
        )
        written.append(files)
        notes += said
    names = all_names(files.pair for files in written)
    for source in deployment.lowered.cpu_code.values():
        write_sources(folder / "cpu" / source.name, source.files)
    functions = {index: source.name for index, source in deployment.lowered.cpu_code.items()}
    board = board_sources(
        network, deployment.program, names, settings, functions, stem, _compiled_of_segments(network, written)
    )
    board |= board_program(deployment, written, names, settings, CHIPS[options.chip], stem)
    write_sources(folder / "board", board)
    notes += frames_on_the_cpu(network, settings)
    data = description(network, deployment.program, written, settings, options, functions)
    (folder / "segments.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    _write_testcases(deployment, network, settings, fed, folder)
    _write_texts(deployment, network, settings, options, written, folder, notes)
    build = {
        "networks": [
            described(files, compile_network(files, options, folder, deployment.say), options) for files in written
        ],
        "notes": notes,
        "input_notes": of_inputs,
    }
    (folder / BUILD_FILE).write_text(json.dumps(build, indent=2) + "\n", encoding="utf-8")


def _compiled_of_segments(network: Network, written: Sequence[NetworkFiles]) -> list[str]:
    """The file of the compiled network of each NNIE segment, where there are several networks."""
    if len(written) == 1:
        return []
    networks = [network_of(segment, written) for segment in network.segments if segment.placement == "npu"]
    return [files.wk for files in networks if files is not None]


def _samples(
    parts: Sequence[Part], deployment: Deployment[NnieLowered], options: NnieOptions
) -> list[Sequence[Sample]]:
    """Calibration inputs for the mapper, of each part."""
    samples = deployment.samples(options.image_count)
    if len(parts) == 1:
        return [samples_behind_front(deployment.lowered.network, deployment.program, samples)]
    program, split = deployment.program, parts[0].split
    if split is None:
        raise InternalError("several networks come of a warp")
    stn = part_program(program, parts[0]) if options.net_calibration == "simulated" else None
    return [samples, net_samples(parts[0], samples, stn, program.tensors[split.warped].fixed)]


def _write_testcases(
    deployment: Deployment[NnieLowered],
    network: Network,
    settings: tuple[InputSettings, ...],
    fed: Sequence[Sequence[Sample]],
    folder: Path,
) -> None:
    cases = [("random", random_sample(settings)), *(("real", sample) for sample in deployment.samples(1))]
    for name, sample in cases:
        write_testcase(folder / "testcase" / name, network, deployment.program, settings, sample)
    for samples in fed:
        if samples:  # what the mapper dumps is of the last one
            for name, values in samples[-1].inputs.items():
                np.save(folder / "testcase" / last_calibration_file(name), values)


def _write_texts(
    deployment: Deployment[NnieLowered],
    network: Network,
    settings: tuple[InputSettings, ...],
    options: NnieOptions,
    written: Sequence[NetworkFiles],
    folder: Path,
    notes: list[str],
) -> None:
    env = environment()
    values: dict[str, Any] = {
        "name": deployment.recipe.name,
        "program": identifier(safe_name(deployment.recipe.name)),
        "chip": CHIPS[options.chip],
        "networks": written,
        "segments": network.segments,
        "settings": settings,
        "of_the_mapper": {each.name for files in written for each in files.settings},
        "notes": notes,
    }
    script = folder / "compile.sh"
    script.write_text(env.get_template("compile.sh.j2").render(values), encoding="utf-8")
    script.chmod(0o755)
    (folder / "README.md").write_text(env.get_template("README.md.j2").render(values), encoding="utf-8")


def read_build_file(folder: Path) -> dict[str, Any]:
    """The artifact's `build.json`."""
    return read_json_object(folder / BUILD_FILE, what="the artifact's description", remedy="build it again")


def read_segments_file(folder: Path) -> dict[str, Any]:
    """The artifact's `segments.json`."""
    return read_json_object(folder / "segments.json", what="the list of segments", remedy="build it again")


def written_layers(build: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names of the layers that each layer was written as, of all networks in the artifact's `build.json`."""
    return {name: written for network in build["networks"] for name, written in network["layers"].items()}
