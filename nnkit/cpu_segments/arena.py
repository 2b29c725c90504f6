"""Where the inner values of a segment live: one static array of floats and one of integers, packed by lifetime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nnkit.memory.placement_checker import check_placement
from nnkit.memory.placing import place
from nnkit.memory.plan import Region
from nnkit.memory.problem import UNBOUNDED_BYTES, Alias, Diagonal, Problem, Request
from nnkit.memory.sharing import Wish

VALUE_BYTES = 4
ALIGNMENT_BYTES = 16


@dataclass(frozen=True)
class Buffer:
    """`count` values of 4 bytes, live from call first_step to last_step, both included; scratch: of one call."""

    id: str
    count: int
    kind: Literal["float", "int"]
    first_step: int
    last_step: int
    scratch: bool = False


@dataclass(frozen=True)
class Arena:
    """offsets: of every buffer in its array, in values. float_bytes, int_bytes: sizes of the two arrays.

    proven_optimal: whether neither array could be smaller. lower_bound_bytes: what both together need at least.
    """

    offsets: Mapping[str, int]
    float_bytes: int
    int_bytes: int
    proven_optimal: bool
    lower_bound_bytes: int


def plan_arena(buffers: Sequence[Buffer], sharings: Sequence[Wish] = (), diagonals: Sequence[Diagonal] = ()) -> Arena:
    """Pack the buffers. Floats and integers are two regions: C lets no object be read as another type.

    sharings: which of them lie inside others. diagonals: which may be written over others that are still read.
    """
    problem = Problem(
        tuple(Region(kind, UNBOUNDED_BYTES, ALIGNMENT_BYTES) for kind in ("float", "int")),
        tuple(
            Request(b.id, b.count * VALUE_BYTES, b.first_step, b.last_step, costs={b.kind: 0})
            for b in buffers
            if b.count > 0
        ),
        tuple(Alias(wish.inner, wish.outer, wish.offset * VALUE_BYTES) for wish in sharings),
        tuple(diagonals),
    )
    placement = place(problem)
    check_placement(problem, placement)
    return Arena(
        {name: spot.offset_bytes // VALUE_BYTES for name, spot in placement.places.items()},
        placement.peaks["float"].peak_bytes,
        placement.peaks["int"].peak_bytes,
        placement.proven_optimal,
        sum(peak.lower_bound_bytes for peak in placement.peaks.values()),
    )
