"""What a node becomes: calls of C kernels with arguments that are resolved once the memory is planned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

MAX_RANK = 8  # NNKIT_MAX_RANK of the runtime header


class RefusedError(Exception):
    """A node cannot be generated; the message says why. Collected: a user reads all of them at once."""


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


Argument: TypeAlias = Read | Write | Scratch | Table | Struct | str


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a kernel. kernel: stem of its C file, without `nnkit_`."""

    kernel: str
    function: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class View:
    """The node's output is its input in another shape: no code."""

    source: str


@dataclass(frozen=True, eq=False)
class Known:
    """The node's output is known at compile time."""

    array: NDArray[np.float32]


Lowered: TypeAlias = list[Call] | View | Known


def number(value: float) -> str:
    """A float32 as a C constant that reads back to the same bits."""
    single = np.float32(value)
    if np.isnan(single):
        return "NAN"
    if np.isinf(single):
        return "INFINITY" if single > 0 else "-INFINITY"
    text = str(single)
    return f"{text}f" if any(mark in text for mark in ".e") else f"{text}.0f"


def braces(values: Sequence[int]) -> str:
    """`{1, 2, 3}`"""
    return "{" + ", ".join(str(int(value)) for value in values) + "}"


def strides(shape: Sequence[int]) -> list[int]:
    """Steps of a contiguous array, in values."""
    steps = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * shape[axis + 1]
    return steps


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
        raise RefusedError(f"has more than {MAX_RANK} dimensions")
    columns = [braces(column) for column in zip(*rows, strict=True)]
    return Struct("nnkit_grid", f"{{{len(rows)}, {', '.join(columns)}}}")


def copy(source: Read, target: Write, sizes: Sequence[int], a: Sequence[int], b: Sequence[int]) -> Call:
    """A copy with steps `a` of the source and `b` of the target."""
    return Call("copy", "nnkit_copy", (source, target, grid(sizes, a, b)))
