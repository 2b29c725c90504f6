"""Where the inner values of a segment live: one static array of floats and one of integers, packed by lifetime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nnkit.memory.engine import Item, Solution, solve

VALUE_BYTES = 4
ALIGNMENT_BYTES = 16


@dataclass(frozen=True)
class Buffer:
    """`count` values of 4 bytes, live from call first_step to last_step, both included."""

    id: str
    count: int
    kind: Literal["float", "int"]
    first_step: int
    last_step: int


@dataclass(frozen=True)
class Arena:
    """offsets: of every buffer in its array, in values. float_bytes, int_bytes: sizes of the two arrays.

    proven_optimal: whether neither array could be smaller.
    """

    offsets: Mapping[str, int]
    float_bytes: int
    int_bytes: int
    proven_optimal: bool


def plan_arena(buffers: Sequence[Buffer]) -> Arena:
    """Pack the buffers. Floats and integers are apart: C lets no object be read as another type."""
    floats, ints = (_packed(buffers, kind) for kind in ("float", "int"))
    offsets = {**floats.offsets_bytes, **ints.offsets_bytes}
    return Arena(
        {name: offset // VALUE_BYTES for name, offset in offsets.items()},
        floats.peak_bytes,
        ints.peak_bytes,
        floats.proven_optimal and ints.proven_optimal,
    )


def _packed(buffers: Sequence[Buffer], kind: str) -> Solution:
    items = [
        Item(b.id, b.count * VALUE_BYTES, b.first_step, b.last_step, ALIGNMENT_BYTES)
        for b in buffers
        if b.kind == kind and b.count > 0
    ]
    return solve(tuple(items))
