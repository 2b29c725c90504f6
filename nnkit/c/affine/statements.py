"""The calls of an affine program as statements of C, with the structures of numbers that they take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.c.affine.call import Kernel, Table, TableKind, pixels_and_channels, suffix
from nnkit.c.affine.layout import Layout, Place, Work
from nnkit.c.text import int32_literal
from nnkit.program.affine import AffineProgram, AffineTensor

C_TYPES: Mapping[str, str] = MappingProxyType(
    {"i8": "signed char", "u8": "unsigned char", "i16": "short", "u16": "unsigned short"}
)
"""C's names of stored values."""
TABLE_TYPES: Mapping[TableKind, np.dtype[Any]] = MappingProxyType(
    {"ints": np.dtype("<i4"), "shorts": np.dtype("<i2"), "bytes": np.dtype("i1")}
)
"""How tables are stored."""


@dataclass(frozen=True, eq=False)
class Statements:
    """What is called.

    value: a value at its place as a C expression, for reading or not. table: of a call, its table of that name.
    scratch: of a call, where its working memory lies, as an expression of bytes.
    """

    program: AffineProgram
    work: Work
    layout: Layout
    prefix: str
    value: Callable[[Place, AffineTensor, bool], str]
    table: Callable[[int, str], str]
    scratch: Callable[[int], str]

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The calls that are made."""
        return tuple(step for step in range(len(self.work.calls)) if step not in self.layout.dropped)

    @cached_property
    def kernels(self) -> tuple[Kernel, ...]:
        """The functions that are called, by name."""
        return tuple(sorted({self.work.calls[step].kernel for step in self.steps}, key=lambda kernel: kernel.name))

    @cached_property
    def structures(self) -> Mapping[str, tuple[str, ...]]:
        """The members of each structure of numbers."""
        return {call.kernel.structure: tuple(call.numbers) for call in self.work.calls}

    @cached_property
    def constants(self) -> tuple[str, ...]:
        """Definitions of the structures that the calls take; calls of the same numbers share one."""
        texts = {}
        for step in self.steps:
            text = "{" + ", ".join(int32_literal(value) for value in self._numbers(step)) + "}"
            kind, name = self._constant[step]
            texts[name] = f"static const {self.prefix}_{kind}_numbers {name} = {text};"
        return tuple(texts.values())

    def constant_name(self, step: int) -> str:
        """The constant with the numbers of a call; see `constants`."""
        return self._constant[step][1]

    def output_place(self, step: int) -> Place:
        """Where a call writes, from its own first channel on."""
        call, join = self.work.calls[step], self.work.joins.get(step)
        tensors, written = self.program.tensors, self.layout.places[call.write]
        first = call.first_channel if join is None else join.offset
        stride = written.stride if join is None else pixels_and_channels(tensors[join.output].shape)[1]
        offset = written.offset_bytes + first * tensors[call.write].format.bytes
        return replace(written, offset_bytes=offset, stride=stride)

    def statement(self, step: int) -> str:
        """The call, without its semicolon and indentation before and behind it."""
        call = self.work.calls[step]
        tensors, places = self.program.tensors, self.layout.places
        written = self.output_place(step)
        arguments = [f"&{self._constant[step][1]}"]
        arguments += [self.value(places[name], tensors[name], True) for name in call.reads]
        arguments.append(self.value(written, tensors[call.write], False))
        arguments += [self.table(step, name) for name in call.tables]
        if call.scratch_bytes:
            kind = dict(call.kernel.variant).get("x", "u8") if call.kernel.template == "depthwise" else "i16"
            arguments.append(f"({C_TYPES[kind]} *)(void *)({self.scratch(step)})")
        return f"{self.prefix}_{call.kernel.name}({', '.join(arguments)});"

    def _numbers(self, step: int) -> tuple[int, ...]:
        call = self.work.calls[step]
        numbers = dict(call.numbers)
        join = self.work.joins.get(step)
        if join is not None:
            numbers["y_stride"] = pixels_and_channels(self.program.tensors[join.output].shape)[1]
        elif call.strided:
            numbers["y_stride"] = self.layout.places[call.write].stride
        return tuple(numbers.values())

    @cached_property
    def _constant(self) -> Mapping[int, tuple[str, str]]:
        """By call the structure that it takes, and the name of the first constant that has its numbers."""
        firsts: dict[tuple[str, tuple[int, ...]], int] = {}
        names = {}
        for step in self.steps:
            kind = self.work.calls[step].kernel.structure
            first = firsts.setdefault((kind, self._numbers(step)), step)
            names[step] = kind, f"{kind}_{first}"
        return names


def byte_pointer(expression: str, tensor: AffineTensor, *, const: bool) -> str:
    """Bytes at the expression as the tensor's values."""
    kind = C_TYPES[suffix(tensor)]
    return expression if kind == "unsigned char" else f"({'const ' if const else ''}{kind} *)(void *)({expression})"


def table_pointer(expression: str, kernel: Kernel) -> str:
    """A table's stored numbers at the expression, as the kernel takes them."""
    if kernel.structure in ("lookup", "embedding"):  # of values, not of weights
        stored = C_TYPES[kernel.values["y"]]
        if stored not in ("signed char", "short"):
            return f"(const {stored} *)({expression})"
    return expression


def stored(table: Table) -> NDArray[Any]:
    """The table as the files have it; what does not fit its type is an unsigned number of as many bits."""
    numbers: NDArray[Any] = np.ascontiguousarray(table.values).reshape(-1).astype(np.int64)
    return numbers.astype(TABLE_TYPES[table.kind])
