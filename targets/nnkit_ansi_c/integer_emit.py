"""The artifact of an integer network: a C library, its kernels, its weights, and what builds and tries it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nnkit import __version__
from nnkit.c.affine.catalogue import HEADER, header, kernel_files
from nnkit.c.sources import TYPES_HEADER, c_environment, tidy_source, types_header
from nnkit.c.text import int32_literal
from nnkit.generated import write_sources
from nnkit_ansi_c.device import build_id_of, emit_firmware
from nnkit_ansi_c.integer_network import IntegerNetwork
from nnkit_ansi_c.options import AnsiCOptions

_PER_LINE = 16


def emit_integer_library(
    network: IntegerNetwork, options: AnsiCOptions, folder: Path, stages: Sequence[str] = ()
) -> None:
    """Write all files. stages: C files of CPU stages, in `postprocess/`.

    Raises UserFileError where the folder cannot be written.
    """
    prefix, blob = network.prefix, options.weights == "blob"
    weights_file = f"{prefix}_weights.{'S' if blob else 'c'}"
    values: dict[str, Any] = {
        "prefix": prefix,
        "macro": prefix.upper(),
        "version": __version__,
        "inputs": network.inputs,
        "outputs": network.outputs,
        "ports": [("input", port) for port in network.inputs] + [("output", port) for port in network.outputs],
        "arena_bytes": network.arena_bytes,
        "weight_bytes": network.weight_bytes,
        "regions": network.record()["regions"],
        "peaks": {name: peak.peak_bytes for name, peak in network.layout.placement.peaks.items()},
        "weight_regions": network.record()["weight_regions"],
        "weight_parts": [_weight_part(network, region, blob=blob) for region in network.pools],
        "blobs": [_blob(prefix, region) for region in network.pools],
        "blob": blob,
        "constants": network.constants,
        "layers": network.layers,
        "sources": network.sources(),
        "stages": stages,
        "headers": (f"{prefix}_kernels.h", HEADER, TYPES_HEADER),
        "weights_file": weights_file,
    }
    templates = {
        f"{prefix}.h": "integer.h.j2",
        f"{prefix}.c": "integer.c.j2",
        weights_file: "weights.S.j2" if blob else "integer_weights.c.j2",
        "example.c": "integer_example.c.j2",
        "Makefile": "Makefile.j2",
        "CMakeLists.txt": "CMakeLists.txt.j2",
        "library.json": "library.json.j2",
        "library.properties": "library.properties.j2",
    }
    environment = c_environment("nnkit_ansi_c", "templates")
    texts = {file: tidy_source(environment, template, values) for file, template in templates.items()}
    texts |= kernel_files(prefix, network.kernels, network.structures)
    texts |= {HEADER: header(), TYPES_HEADER: types_header()}
    weights = {region: b"".join(pool.tobytes() for pool in pools.values()) for region, pools in network.pools.items()}
    library = [texts[file].encode() for file in network.sources()]
    build_id = build_id_of([*library, *weights.values()])
    record = dict(network.record()) | {"weights": weights_file, "id": build_id}
    texts[f"{prefix}.json"] = json.dumps(record, indent=2) + "\n"
    write_sources(folder, texts)
    emit_firmware(record, build_id, folder)
    if blob:
        for region, data in weights.items():
            (folder / _blob(prefix, region)).write_bytes(data)


def _blob(prefix: str, region: str) -> str:
    return f"{prefix}_{region}_weights.bin" if region else f"{prefix}_weights.bin"


def _weight_part(network: IntegerNetwork, region: str, *, blob: bool) -> dict[str, Any]:
    """What the templates say of a file of weights: C names of its type and its constant, lengths, numbers."""
    prefix, pools = network.prefix, network.pools[region]
    return {
        "region": region,
        "type": f"{prefix}_{region}_weight_data" if region else f"{prefix}_weight_data",
        "name": f"{prefix}_{region}_weights" if region else f"{prefix}_weights",
        "bin": _blob(prefix, region),
        "bytes": network.weight_bytes_of(region),
        "lengths": {kind: len(pool) for kind, pool in pools.items()},
        "rows": () if blob else [_rows(pool.tolist()) for pool in pools.values()],
    }


def _rows(numbers: list[int]) -> list[str]:
    literals = [int32_literal(number) for number in numbers]
    return [", ".join(literals[i : i + _PER_LINE]) for i in range(0, len(literals), _PER_LINE)]
