"""Writes a CPU segment as portable C90: `<name>.h`, `<name>.c`, the kernels it calls, and a list of its ports."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nnkit import __version__
from nnkit.c.float.catalogue import HEADERS, kernel_source
from nnkit.c.sources import c_environment
from nnkit.cpu_segments.assemble import Names, assemble
from nnkit.errors import UsageError
from nnkit.generated import write_sources
from nnkit.graph import InputSpec, Model, OutputSpec
from nnkit.graph.view import GraphView

_VALUE_BYTES = 4


@dataclass(frozen=True)
class Port:
    """An input or output of a segment: ONNX name, C parameter, shape, number of values."""

    name: str
    pointer: str
    shape: tuple[int, ...]
    count: int


@dataclass(frozen=True, eq=False)
class SegmentSource:
    """What was generated. files: text by file name, `<name>.json` with the ports included.

    arena_bytes: static working memory. weight_bytes: constants (weights and tables). proven_optimal: whether no
    packing of the working memory is smaller.
    """

    name: str
    files: dict[str, str]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    weight_bytes: int
    proven_optimal: bool


def segment_source(model: Model | GraphView, name: str) -> SegmentSource:
    """The C sources of a network, or of a part of one, under `name`. The same nodes give the same text.

    Raises:
        ModelError: layers that have no C code, all of them in one message.
        UsageError: `name` is no C identifier.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise UsageError(f"'{name}' is no name for a C function", remedy="use letters, digits and underscores")
    graph = GraphView.of(model) if isinstance(model, Model) else model
    inputs, outputs = _ports("in", graph.model.inputs), _ports("out", graph.model.outputs)
    sources, targets = ({port.name: port.pointer for port in ports} for ports in (inputs, outputs))
    assembly = assemble(graph, Names(sources, targets))
    arena = assembly.arena
    arena_bytes = arena.float_bytes + arena.int_bytes
    values: dict[str, Any] = {
        "name": name,
        "version": __version__,
        "guard": f"{name.upper()}_H",
        "macro": name.upper(),
        "inputs": inputs,
        "outputs": outputs,
        "steps": [step for step in assembly.steps if step.statements],
        "constants": assembly.constants,
        "arena_bytes": arena_bytes,
        "weight_bytes": assembly.weight_bytes,
        "float_count": arena.float_bytes // _VALUE_BYTES,
        "int_count": arena.int_bytes // _VALUE_BYTES,
        "prototypes": assembly.prototypes,
    }
    record = {
        "name": name,
        "inputs": [asdict(port) for port in inputs],
        "outputs": [asdict(port) for port in outputs],
    }
    kernels = [f"nnkit_{kernel}.c" for kernel in assembly.kernels if kernel not in assembly.own]
    texts = {file: kernel_source(file) for file in (*HEADERS, *kernels)}
    texts |= {f"nnkit_{kernel}.c": text for kernel, text in assembly.own.items()}
    texts |= {f"{name}.{suffix}": render(f"segment.{suffix}.j2", values) for suffix in ("c", "h")}
    texts[f"{name}.json"] = json.dumps(record, indent=2) + "\n"
    return SegmentSource(
        name, dict(sorted(texts.items())), inputs, outputs, arena_bytes, assembly.weight_bytes, arena.proven_optimal
    )


def emit_segment(model: Model, name: str, folder: Path) -> SegmentSource:
    """Write the C sources of `model` into `folder`, which is created.

    Raises: as `segment_source`; UserFileError where the folder cannot be written.
    """
    source = segment_source(model, name)
    write_sources(folder, source.files)
    return source


def render(template: str, values: dict[str, Any]) -> str:
    """One of the templates of this package, filled."""
    return c_environment("nnkit", "cpu_segments").get_template(template).render(values)


def _ports(prefix: str, specs: Sequence[InputSpec | OutputSpec]) -> tuple[Port, ...]:
    ports = []
    for index, spec in enumerate(specs):
        words = re.sub(r"[^A-Za-z0-9]+", "_", spec.name).strip("_").lower()
        pointer = f"{prefix}{index}_{words}" if words else f"{prefix}{index}"
        ports.append(Port(spec.name, pointer, spec.shape, int(np.prod(spec.shape))))
    return tuple(ports)
