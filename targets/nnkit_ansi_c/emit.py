"""The artifact: a C library of one network, its weights, and what builds and tries it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnkit import __version__
from nnkit.c.float.catalogue import HEADERS, kernel_source
from nnkit.c.sources import c_environment, tidy_source
from nnkit.c.text import float32_literal
from nnkit.cpu_segments.arena import VALUE_BYTES
from nnkit.generated import write_sources
from nnkit.preprocess.from_pixels import NO_PICTURES, Pictures
from nnkit_ansi_c.device import build_id_of, emit_firmware
from nnkit_ansi_c.network import Network
from nnkit_ansi_c.options import AnsiCOptions
from nnkit_ansi_c.weight_files import WeightFile, weight_files

if TYPE_CHECKING:
    from nnkit_ansi_c.integer_network import IntegerNetwork

_PER_LINE = 8


def emit_library(
    network: Network,
    options: AnsiCOptions,
    folder: Path,
    stages: Sequence[str] = (),
    pictures: Pictures = NO_PICTURES,
) -> None:
    """Write all files. stages: C files of CPU stages, in `postprocess/`. pictures: the inputs that are made of such.

    Raises UserFileError where the folder cannot be written.
    """
    prefix, assembly = network.prefix, network.assembly
    files = weight_files(prefix, {region: each.astype("<f4").tobytes() for region, each in network.weights.items()})
    values: dict[str, Any] = {
        "prefix": prefix,
        "macro": prefix.upper(),
        "version": __version__,
        "inputs": network.inputs,
        "outputs": network.outputs,
        "steps": assembly.steps,
        "constants": assembly.constants,
        "float_count": assembly.arena.float_bytes // VALUE_BYTES,
        "int_count": assembly.arena.int_bytes // VALUE_BYTES,
        "arena_bytes": network.arena_bytes,
        "weight_bytes": network.weight_bytes,
        "blob": options.weights == "blob",
        "regions": [each.name for each in network.regions.values],
        "region_floats": {name: peak.peak_bytes // VALUE_BYTES for name, peak in assembly.arena.peaks.items()},
        "weight_regions": [each.name for each in network.regions.weights],
        "weight_files": files,
        "weight_counts": {region: max(each.size, 1) for region, each in network.weights.items()},
        "sources": network.sources(),
        "stages": stages,
        "pictures": pictures,
        "headers": HEADERS,
        "weight_rows": (
            {region: _rows(each) for region, each in network.weights.items()} if options.weights == "arrays" else {}
        ),
    }
    environment = c_environment("nnkit_ansi_c", "templates")
    weights_file = f"{prefix}_weights.{'S' if options.weights == 'blob' else 'c'}"
    templates = {
        f"{prefix}.h": "network.h.j2",
        f"{prefix}.c": "network.c.j2",
        weights_file: f"weights.{'S' if options.weights == 'blob' else 'c'}.j2",
        "example.c": "example.c.j2",
        **shared_templates(pictures),
    }
    values["weights_file"] = weights_file
    texts = {file: tidy_source(environment, template, values) for file, template in templates.items()}
    texts |= {file: kernel_source(file) for file in (*HEADERS, *network.sources()[1:])}
    write_library(network, folder, texts, (f"{prefix}.c",), weights_file, files, pictures)


def shared_templates(pictures: Pictures) -> dict[str, str]:
    """What every library is built and tried with: templates by file."""
    names = ["Makefile", "CMakeLists.txt", "library.json", "library.properties"]
    if len(pictures.functions) == 1:  # one picture is all that the network takes
        names.append("example_picture.c")
    return {name: f"{name}.j2" for name in names}


def write_library(
    network: Network | IntegerNetwork,
    folder: Path,
    texts: Mapping[str, str],
    identified: Sequence[str],
    weights_file: str,
    weights: Sequence[WeightFile],
    pictures: Pictures,
) -> None:
    """Write a library's texts, with what describes it, its pictures, its firmware and its binary weights.

    identified: the texts that its id is made of, with the weights. weights_file: that of an assembler (`.S`)
    includes binary files, one of C holds the weights.
    """
    build_id = build_id_of([*(texts[file].encode() for file in identified), *(each.content for each in weights)])
    record = pictures.recorded(network.record()) | {"weights": weights_file, "id": build_id}
    binaries = {each.bin: each.content for each in weights} if weights_file.endswith(".S") else {}
    described = {f"{network.prefix}.json": json.dumps(record, indent=2) + "\n"}
    write_sources(folder, {**texts, **described, **pictures.files, **binaries})
    emit_firmware(record, build_id, folder)


def _rows(weights: Any) -> list[str]:
    literals = [float32_literal(value) for value in weights.tolist()] or ["0.0f"]
    return [", ".join(literals[i : i + _PER_LINE]) for i in range(0, len(literals), _PER_LINE)]
