"""An integer program as C: calls with their numbers, tables and addresses. What plan and emission have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.c.affine.call import Kernel, Table, TableKind, pixels_and_channels, suffix
from nnkit.c.affine.catalogue import codes_of
from nnkit.c.affine.layout import Layout, Place, Work, layout_of, work_of
from nnkit.c.affine.statements import C_TYPES, TABLE_TYPES, Statements, byte_pointer, stored, table_pointer
from nnkit.c.text import float32_literal, identifier, unique_identifiers
from nnkit.program.affine import AffineProgram, AffineTensor
from nnkit_ansi_c.regions import Regions

_EMPTY_BYTES = 4 * len(TABLE_TYPES)  # C has no arrays of no elements, and each begins at a word
_TAKEN = ("context", "arena", "weights", "layer", "values", "count", "bytes")


@dataclass(frozen=True)
class IntegerPort:
    """An input or output: its name in the network, its C parameter, how its numbers are stored."""

    name: str
    pointer: str
    tensor: AffineTensor

    @property
    def type(self) -> str:
        """C's name of the element."""
        return C_TYPES[suffix(self.tensor)]

    @property
    def count(self) -> int:
        """Number of elements."""
        return self.tensor.elements

    @property
    def values(self) -> int:
        """The same, as `Port` has it."""
        return self.count

    @property
    def pixels(self) -> int:
        """H * W of a tensor [C, H, W]; 1 for every other shape."""
        return pixels_and_channels(self.tensor.shape)[0]

    @property
    def channels(self) -> int:
        """Elements of a pixel."""
        return pixels_and_channels(self.tensor.shape)[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """As it lies in memory."""
        shape = self.tensor.shape
        return (shape[1], shape[2], shape[0]) if len(shape) == 3 else shape

    @property
    def layout(self) -> str:
        """What its dimensions are."""
        return "H, W, C" if len(self.tensor.shape) == 3 else "row-major"

    @property
    def scale(self) -> str:
        """As a C constant."""
        return float32_literal(self.tensor.scale)


@dataclass(frozen=True, eq=False)
class WeightTables:
    """Tables of weights behind one another. offsets: of each, by its content, in elements of its kind."""

    pools: Mapping[TableKind, NDArray[Any]]
    offsets: Mapping[TableKind, Mapping[bytes, int]]


def joined_tables(tables: Sequence[Table]) -> WeightTables:
    """Equal ones once; a structure of them in C has no padding."""
    parts: dict[TableKind, list[NDArray[Any]]] = {kind: [] for kind in TABLE_TYPES}
    offsets: dict[TableKind, dict[bytes, int]] = {kind: {} for kind in TABLE_TYPES}
    sizes = dict.fromkeys(TABLE_TYPES, 0)
    for table in tables:
        array = stored(table)
        key = array.tobytes()
        if key not in offsets[table.kind]:
            if table.kind == "bytes" and sizes["bytes"] % 4:  # rows of weights begin at words
                parts["bytes"].append(np.zeros(-sizes["bytes"] % 4, "i1"))
                sizes["bytes"] += -sizes["bytes"] % 4
            offsets[table.kind][key] = sizes[table.kind]
            parts[table.kind].append(array)
            sizes[table.kind] += array.size
    joined = {kind: np.concatenate(parts[kind] or [np.zeros(1, form)]) for kind, form in TABLE_TYPES.items()}
    joined["shorts"] = np.pad(joined["shorts"], (0, joined["shorts"].size % 2))
    joined["bytes"] = np.pad(joined["bytes"], (0, -joined["bytes"].size % 4))
    return WeightTables(joined, offsets)


def region_bytes(region: str) -> str:
    """C's name of the bytes of a region within the calls."""
    return f"{region}_bytes"


@dataclass(frozen=True)
class Layer:
    """An op: its calls, and its result as a trace has it."""

    name: str
    kind: str
    output: str
    statements: tuple[str, ...]
    pointer: str
    pixels: int
    pixel_bytes: int
    stride_bytes: int


@dataclass(frozen=True, eq=False)
class IntegerNetwork:
    """The C of a program. prefix: of its functions, types and files."""

    program: AffineProgram
    prefix: str
    inputs: tuple[IntegerPort, ...]
    outputs: tuple[IntegerPort, ...]
    work: Work
    layout: Layout
    regions: Regions

    @staticmethod
    def of(program: AffineProgram, regions: Regions | None = None) -> IntegerNetwork:
        """Deterministic. regions: None: one arena, one file of weights.

        Raises ModelError naming every op that there is no C for, DoesNotFitError where regions are too small.
        """
        regions = regions or Regions()
        codes = codes_of(program, "integers", "set precision: float32, or replace them")
        prefix = identifier(program.name)
        names = (*program.inputs, *program.outputs)
        own = {name for name in map(identifier, names) if name.startswith(("nnkit_", f"{prefix}_"))}
        taken = {*_TAKEN, *own, *(region_bytes(each.name) for each in regions.values)}
        pointers = unique_identifiers(names, taken)
        ports = {name: IntegerPort(name, pointers[name], program.tensors[name]) for name in names}
        work = work_of(program, codes)
        return IntegerNetwork(
            program,
            prefix,
            tuple(ports[name] for name in program.inputs),
            tuple(ports[name] for name in program.outputs),
            work,
            layout_of(program, work, regions=regions.places(), costs=regions.costs(program, work)),
            regions,
        )

    @property
    def arena_bytes(self) -> int:
        """Bytes of working memory, of all regions."""
        return sum(peak.peak_bytes for peak in self.layout.placement.peaks.values())

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The functions that are called, by name."""
        return self._statements.kernels

    @property
    def structures(self) -> Mapping[str, tuple[str, ...]]:
        """The members of each structure of numbers."""
        return self._statements.structures

    @cached_property
    def pools(self) -> Mapping[str, Mapping[TableKind, NDArray[Any]]]:
        """By region, `""` for the only file: all tables, `ints`, `shorts`, `bytes`, none of them empty."""
        return {region: tables.pools for region, tables in self._tables.items()}

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tables of weights."""
        return sum(self.held_bytes.values())

    @cached_property
    def held_bytes(self) -> Mapping[str, int]:
        """By region the bytes of its tables."""
        return {region: sum(pool.nbytes for pool in pools.values()) for region, pools in self.pools.items()}

    @cached_property
    def table_regions(self) -> Mapping[bytes, str]:
        """The region of each table, by its content."""
        uses = (
            (self.program.ops[self.work.owners[step]], stored(table).tobytes()) for step, table in self._used_tables()
        )
        return self.regions.weight_regions(self.program, uses, reserved_bytes=_EMPTY_BYTES)

    def _used_tables(self) -> Iterator[tuple[int, Table]]:
        for step, call in enumerate(self.work.calls):
            if step not in self.layout.dropped:
                yield from ((step, table) for table in call.tables.values())

    @cached_property
    def _tables(self) -> Mapping[str, WeightTables]:
        names = [each.name for each in self.regions.weights] or [""]
        regions = self.table_regions
        tables = [table for _, table in self._used_tables()]
        return {
            name: joined_tables([each for each in tables if regions[stored(each).tobytes()] == name])
            for name in names
        }

    @property
    def constants(self) -> tuple[str, ...]:
        """Definitions of the structures that the calls take."""
        return self._statements.constants

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """An entry for each op."""
        by_op: dict[int, list[str]] = {}
        for step in self._statements.steps:
            by_op.setdefault(self.work.owners[step], []).append(self._statements.statement(step))
        layers = []
        for index, op in enumerate(self.program.ops):
            tensor, spot = self.program.tensors[op.output], self.layout.places[op.output]
            pixels, channels = pixels_and_channels(tensor.shape)
            size = tensor.format.bytes
            layers.append(
                Layer(
                    op.name,
                    op.kind,
                    op.output,
                    tuple(by_op.get(index, ())),
                    self._pointer(spot, tensor, True),
                    pixels,
                    channels * size,
                    spot.stride * size,
                )
            )
        return tuple(layers)

    def record(self) -> Mapping[str, Any]:
        """`<prefix>.json`: what tools want to know of the files."""
        return {
            "name": self.prefix,
            "arithmetic": "integer",
            "inputs": [_described(port) for port in self.inputs],
            "outputs": [_described(port) for port in self.outputs],
            "arena_bytes": self.arena_bytes,
            "weight_bytes": self.weight_bytes,
            "regions": [each.name for each in self.regions.values],
            "weight_regions": [each.name for each in self.regions.weights],
            "sources": self.sources(),
            "layers": [
                {
                    "name": layer.output,
                    "values": layer.pixels * layer.pixel_bytes // self.program.tensors[layer.output].format.bytes,
                    "bytes": layer.pixels * layer.pixel_bytes,
                }
                for layer in self.layers
            ],
        }

    def sources(self) -> list[str]:
        """C files of the library, without the weights."""
        return [f"{self.prefix}.c", f"{self.prefix}_kernels.c"]

    @cached_property
    def _statements(self) -> Statements:
        return Statements(
            self.program, self.work, self.layout, self.prefix, self._pointer, self._table, self._scratch
        )

    def _scratch(self, step: int) -> str:
        return f"{self._base(self.layout.scratch_region(step))} + {self.layout.scratch[step]}"

    def _base(self, region: str) -> str:
        """C of a region's first byte."""
        return region_bytes(region) if self.regions.values else "bytes"

    def _table(self, step: int, name: str) -> str:
        call = self.work.calls[step]
        table = call.tables[name]
        key = stored(table).tobytes()
        region = self.table_regions[key]
        at = self._tables[region].offsets[table.kind][key]
        return table_pointer(f"weights->{f'{region}->' if region else ''}{table.kind} + {at}", call.kernel)

    def _pointer(self, place: Place, tensor: AffineTensor, const: bool) -> str:
        if not place.base:
            base = self._base(place.region)
            expression = f"{base} + {place.offset_bytes}" if place.offset_bytes else base
            return byte_pointer(expression, tensor, const=const)
        port = next(each for each in (*self.inputs, *self.outputs) if each.name == place.base)
        offset = place.offset_bytes // tensor.format.bytes
        return f"{port.pointer} + {offset}" if offset else port.pointer


def _described(port: IntegerPort) -> dict[str, Any]:
    return {
        "name": port.name,
        "pointer": port.pointer,
        "shape": list(port.shape),
        "layout": port.layout,
        "values": port.count,
        "type": port.type,
        "in_arena": False,
        "scale": port.tensor.scale,
        "zero_point": port.tensor.zero_point,
    }
