"""An integer program as C: calls with their numbers, tables and addresses. What plan and emission have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.c.affine.call import Kernel, TableKind, pixels_and_channels, suffix
from nnkit.c.affine.catalogue import codes_of
from nnkit.c.affine.layout import Layout, Place, Work, layout_of, work_of
from nnkit.c.affine.statements import C_TYPES, TABLE_TYPES, Statements, byte_pointer, stored, table_pointer
from nnkit.c.text import float32_literal, identifier, unique_identifiers
from nnkit.program.affine import AffineProgram, AffineTensor

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


@dataclass(frozen=True)
class Layer:
    """An op: its calls, and its result as a trace is told of it."""

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

    @staticmethod
    def of(program: AffineProgram) -> IntegerNetwork:
        """Deterministic. Raises ModelError naming every op that there is no C for."""
        codes = codes_of(program, "integers", "set precision: float32, or replace them")
        prefix = identifier(program.name)
        names = (*program.inputs, *program.outputs)
        own = {name for name in map(identifier, names) if name.startswith(("nnkit_", f"{prefix}_"))}
        pointers = unique_identifiers(names, {*_TAKEN, *own})
        ports = {name: IntegerPort(name, pointers[name], program.tensors[name]) for name in names}
        work = work_of(program, codes)
        return IntegerNetwork(
            program,
            prefix,
            tuple(ports[name] for name in program.inputs),
            tuple(ports[name] for name in program.outputs),
            work,
            layout_of(program, work),
        )

    @property
    def arena_bytes(self) -> int:
        """Bytes of working memory."""
        return self.layout.placement.peaks["arena"].peak_bytes

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The functions that are called, by name."""
        return self._statements.kernels

    @property
    def structures(self) -> Mapping[str, tuple[str, ...]]:
        """The members of each structure of numbers."""
        return self._statements.structures

    @cached_property
    def pools(self) -> Mapping[TableKind, NDArray[Any]]:
        """All tables: `ints`, `shorts`, `bytes`, none of them empty."""
        return {kind: self._tables[kind][0] for kind in TABLE_TYPES}

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tables of weights."""
        return sum(pool.nbytes for pool in self.pools.values())

    @cached_property
    def _tables(self) -> Mapping[TableKind, tuple[NDArray[Any], Mapping[bytes, int]]]:
        """By kind the joined tables and the offset of each in elements."""
        parts: dict[TableKind, list[NDArray[Any]]] = {kind: [] for kind in TABLE_TYPES}
        offsets: dict[TableKind, dict[bytes, int]] = {kind: {} for kind in TABLE_TYPES}
        sizes = dict.fromkeys(TABLE_TYPES, 0)
        for step, call in enumerate(self.work.calls):
            for table in call.tables.values() if step not in self.layout.dropped else ():
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
        # A structure in C has no padding behind them then.
        joined["shorts"] = np.pad(joined["shorts"], (0, joined["shorts"].size % 2))
        joined["bytes"] = np.pad(joined["bytes"], (0, -joined["bytes"].size % 4))
        return {kind: (joined[kind], offsets[kind]) for kind in TABLE_TYPES}

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
        return Statements(self.program, self.work, self.layout, self.prefix, self._pointer, self._table, "bytes")

    def _table(self, step: int, name: str) -> str:
        call = self.work.calls[step]
        table = call.tables[name]
        at = self._tables[table.kind][1][stored(table).tobytes()]
        return table_pointer(f"weights->{table.kind} + {at}", call.kernel)

    def _pointer(self, place: Place, tensor: AffineTensor, const: bool) -> str:
        if not place.base:
            expression = f"bytes + {place.offset_bytes}" if place.offset_bytes else "bytes"
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
