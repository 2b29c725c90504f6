"""The artifact of an integer network: a C library, its kernels, its weights, and what builds and tries it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nnkit import __version__
from nnkit.c.affine.catalogue import HEADER, header, kernel_files
from nnkit.c.sources import TYPES_HEADER, c_environment, tidy_source, types_header
from nnkit.c.text import int32_literal
from nnkit.preprocess.from_pixels import NO_PICTURES, Pictures
from nnkit_ansi_c.emit import shared_templates, write_library
from nnkit_ansi_c.integer_network import IntegerNetwork
from nnkit_ansi_c.options import AnsiCOptions
from nnkit_ansi_c.weight_files import weight_files

_PER_LINE = 16


def emit_integer_library(
    network: IntegerNetwork,
    options: AnsiCOptions,
    folder: Path,
    stages: Sequence[str] = (),
    pictures: Pictures = NO_PICTURES,
) -> None:
    """Write all files. stages: C files of CPU stages, in `postprocess/`. pictures: the inputs that are made of such.

    Raises UserFileError where the folder cannot be written.
    """
    prefix, blob = network.prefix, options.weights == "blob"
    weights_file = f"{prefix}_weights.{'S' if blob else 'c'}"
    tables = network.pools.items()
    files = weight_files(
        prefix, {region: b"".join(map(np.ndarray.tobytes, pools.values())) for region, pools in tables}
    )
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
        "weight_files": files,
        "weight_lengths": {region: {kind: len(pool) for kind, pool in pools.items()} for region, pools in tables},
        "weight_rows": {}
        if blob
        else {region: [_rows(each.tolist()) for each in pools.values()] for region, pools in tables},
        "blob": blob,
        "constants": network.constants,
        "layers": network.layers,
        "sources": network.sources(),
        "stages": stages,
        "pictures": pictures,
        "headers": (f"{prefix}_kernels.h", HEADER, TYPES_HEADER),
        "weights_file": weights_file,
    }
    templates = {
        f"{prefix}.h": "integer.h.j2",
        f"{prefix}.c": "integer.c.j2",
        weights_file: "weights.S.j2" if blob else "integer_weights.c.j2",
        "example.c": "integer_example.c.j2",
        **shared_templates(pictures),
    }
    environment = c_environment("nnkit_ansi_c", "templates")
    texts = {file: tidy_source(environment, template, values) for file, template in templates.items()}
    texts |= kernel_files(prefix, network.kernels, network.structures)
    texts |= {HEADER: header(), TYPES_HEADER: types_header()}
    write_library(network, folder, texts, network.sources(), weights_file, files, pictures)


def _rows(numbers: list[int]) -> list[str]:
    literals = [int32_literal(number) for number in numbers]
    return [", ".join(literals[i : i + _PER_LINE]) for i in range(0, len(literals), _PER_LINE)]
