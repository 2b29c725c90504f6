"""A float32 program as C: names, ports, calls. What plan and emission have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.c.text import identifier, unique_identifiers
from nnkit.program import Program
from nnkit_ansi_c.regions import Regions

if TYPE_CHECKING:
    from nnkit.cpu_segments.assemble import Assembly

WEIGHTS = "nnkit_weights"  # what the calls name the pointer to all weights
_TAKEN = ("context", "arena", "weights", "floats", "ints", "layer", "values", "count")


@dataclass(frozen=True)
class Port:
    """An input or output: its name in ONNX, its C parameter, its shape with the batch axis, its number of values.

    offset: of an input that lies in the arena, in values; None: it is an array of the caller.
    """

    name: str
    pointer: str
    shape: tuple[int, ...]
    count: int
    offset: int | None = None

    @property
    def type(self) -> str:
        """The C type of its values."""
        return "float"

    @property
    def values(self) -> int:
        """How many there are."""
        return self.count

    @property
    def in_arena(self) -> bool:
        """Whether it is no array of the caller."""
        return self.offset is not None

    @property
    def layout(self) -> str:
        """What its dimensions are, as far as their number tells."""
        return {4: "N, C, H, W", 3: "N, C, W", 2: "N, C"}.get(len(self.shape), "row-major")


@dataclass(frozen=True, eq=False)
class Network:
    """The C of a program. prefix: of its functions, types and files."""

    prefix: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    assembly: Assembly
    regions: Regions

    @staticmethod
    def of(program: Program, *, inputs_in_arena: bool = False, regions: Regions | None = None) -> Network:
        """Deterministic: the same program gives the same names, addresses and calls.

        regions: where there are several memories. Raises DoesNotFitError where they are too small.
        """
        from nnkit.cpu_segments.assemble import Names, assemble
        from nnkit.graph.view import GraphView
        from nnkit_ansi_c.ops import network_of

        model = network_of(program)
        shapes = {spec.name: spec.shape for spec in model.inputs} | {spec.name: spec.shape for spec in model.outputs}
        prefix = identifier(program.name)
        own = {name for name in map(identifier, shapes) if name.startswith(("nnkit_", f"{prefix}_"))}
        pointers = unique_identifiers(shapes, {*_TAKEN, *own})
        ports = {name: Port(name, pointers[name], shape, prod(shape)) for name, shape in shapes.items()}
        inputs = tuple(ports[spec.name] for spec in model.inputs)
        outputs = tuple(ports[spec.name] for spec in model.outputs)
        sources = {} if inputs_in_arena else {port.name: port.pointer for port in inputs}
        regions = regions or Regions()
        given = Names(sources, {p.name: p.pointer for p in outputs}, WEIGHTS)
        assembly = assemble(GraphView.of(model), given, regions.memories(), regions.table_places(program))
        if inputs_in_arena:
            inputs = tuple(replace(port, offset=assembly.arena.offsets[port.name]) for port in inputs)
        return Network(prefix, inputs, outputs, assembly, regions)

    @property
    def arena_bytes(self) -> int:
        """Bytes of working memory."""
        return self.assembly.arena.float_bytes + self.assembly.arena.int_bytes

    @property
    def weights(self) -> Mapping[str, NDArray[np.float32]]:
        """By region, `""` for the only file: all tables, one behind the other."""
        names = [each.name for each in self.regions.weights] or [""]
        return {name: self.assembly.weights.get(name, np.zeros(0, np.float32)) for name in names}

    @property
    def held_bytes(self) -> Mapping[str, int]:
        """By region the bytes of its tables."""
        return {region: tables.nbytes for region, tables in self.weights.items()}

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tables of weights."""
        return sum(self.held_bytes.values())

    def record(self) -> Mapping[str, Any]:
        """`<prefix>.json`: what tools want to know of the files."""
        regions = {"regions": self.regions.values, "weight_regions": self.regions.weights}
        return {
            "name": self.prefix,
            "inputs": [_described(port) for port in self.inputs],
            "outputs": [_described(port) for port in self.outputs],
            "arena_bytes": self.arena_bytes,
            **{key: [each.name for each in given] for key, given in regions.items() if given},
            "weight_bytes": self.weight_bytes,
            "sources": self.sources(),
            "layers": [
                {"name": result.name, "values": result.count}
                for step in self.assembly.steps
                for result in step.results
            ],
        }

    def sources(self) -> list[str]:
        """C files of the library, without the weights."""
        return [f"{self.prefix}.c", *(f"nnkit_{kernel}.c" for kernel in self.assembly.kernels)]


def _described(port: Port) -> dict[str, Any]:
    return {
        "name": port.name,
        "pointer": port.pointer,
        "shape": list(port.shape),
        "values": port.count,
        "type": port.type,
        "in_arena": port.in_arena,
    }
