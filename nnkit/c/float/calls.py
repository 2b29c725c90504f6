"""What a node becomes: calls of C kernels, with arguments that are resolved once the memory is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nnkit.c.text import braces, float32_literal
from nnkit.graph.refusal import Refused
from nnkit.memory.accesses import Accesses

MAX_RANK = 8  # NNKIT_MAX_RANK of the runtime header


@dataclass(frozen=True)
class Read:
    """Pointer to a value that is read, `offset` values from its start."""

    value: str
    offset: int = 0


@dataclass(frozen=True)
class Write:
    """Pointer to a value that is written."""

    value: str
    offset: int = 0


@dataclass(frozen=True)
class Scratch:
    """Working memory of one call: `count` values of 4 bytes."""

    count: int
    kind: Literal["float", "int"]


@dataclass(frozen=True, eq=False)
class Table:
    """A constant array: float32 or int32."""

    values: NDArray[np.float32] | NDArray[np.int32]


@dataclass(frozen=True)
class Struct:
    """A constant structure: its C type and its initialiser."""

    type: str
    text: str


Scalar: TypeAlias = int | float | str
"""A number, a float as float32; a text is C as it stands, such as an enumerator."""

Argument: TypeAlias = Read | Write | Scratch | Table | Struct | Scalar


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a kernel. kernel: stem of its C file, without `nnkit_`; uses: of other files that it needs.

    in_place: positions of the arguments that the result may be written over, each of the result's size: every value
    of them is read before the one of its index is written, and never again.
    accesses: in which order it reads the first argument and writes the result, which may be written over that while
    it is read, if it begins far enough above it; None: it may not.
    clip: position of the `nnkit_clip` between whose bounds it brings its results; None: it has none.
    joins: it copies a whole value to consecutive places of the result; nothing is to be done if it lies there.
    source, prototype: of a function of the user's: the text of its file, and its declaration.
    """

    kernel: str
    function: str
    arguments: tuple[Argument, ...]
    uses: tuple[str, ...] = ()
    in_place: tuple[int, ...] = ()
    joins: bool = False
    accesses: Accesses | None = None
    clip: int | None = None
    source: str = ""
    prototype: str = ""

    def over_input(self, accesses: Accesses | None) -> Call:
        """The same call with the order of its accesses."""
        return replace(self, accesses=accesses)

    def clipped(self, bounds: Struct, result: str) -> Call:
        """The call with an activation taken in, whose result it writes."""
        arguments = [Write(result, a.offset) if isinstance(a, Write) else a for a in self.arguments]
        arguments[self.clip or 0] = bounds
        return replace(self, arguments=tuple(arguments))


@dataclass(frozen=True)
class View:
    """The node's output is its input in another shape: no code."""

    source: str


@dataclass(frozen=True, eq=False)
class Known:
    """The node's output is known at compile time."""

    array: NDArray[np.float32]


Code: TypeAlias = list[Call] | View | Known
"""What there is for a node."""


def scalar(value: Scalar) -> str:
    """A number or text as C."""
    if isinstance(value, str):
        return value
    return float32_literal(value) if isinstance(value, float) else str(int(value))


def struct(c_type: str, *fields: Scalar) -> Struct:
    """A constant structure by its fields in order."""
    return Struct(c_type, f"{{{', '.join(map(scalar, fields))}}}")


def grid(sizes: Sequence[int], a: Sequence[int], b: Sequence[int]) -> Struct:
    """An `nnkit_grid`; neighbouring dimensions that both arrays walk through evenly are merged."""
    rows: list[tuple[int, int, int]] = []
    for size, step_a, step_b in zip(sizes, a, b, strict=True):
        if size == 1:
            continue
        if rows and rows[-1][1] == step_a * size and rows[-1][2] == step_b * size:
            rows[-1] = (rows[-1][0] * size, step_a, step_b)
        else:
            rows.append((size, step_a, step_b))
    rows = rows or [(1, 0, 0)]
    if len(rows) > MAX_RANK:
        raise Refused(f"it has more than {MAX_RANK} dimensions that cannot be merged")
    columns = [braces(column) for column in zip(*rows, strict=True)]
    return Struct("nnkit_grid", f"{{{len(rows)}, {', '.join(columns)}}}")


def copy(source: Read, target: Write, sizes: Sequence[int], a: Sequence[int], b: Sequence[int]) -> Call:
    """A copy of `sizes` values, with steps `a` in the source and `b` in the target."""
    return Call("copy", "nnkit_copy", (source, target, grid(sizes, a, b)), ("grid",))
