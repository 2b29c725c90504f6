"""Where the inner values of a segment live: one static array of floats and one of integers, packed by lifetime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from nnkit.memory.placement_checker import check_placement
from nnkit.memory.placing import place
from nnkit.memory.plan import Region
from nnkit.memory.problem import UNBOUNDED_BYTES, Alias, Diagonal, Problem, RegionPeak, Request
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
class Memories:
    """Several memories for floats. regions: with their capacities. costs: by region, of bytes that are moved."""

    regions: tuple[Region, ...]
    costs: Callable[[int], Mapping[str, int]]


@dataclass(frozen=True)
class Arena:
    """offsets: of every buffer in its array, in values. float_bytes, int_bytes: sizes of the two arrays.

    proven_optimal: whether neither array could be smaller. lower_bound_bytes: what both together need at least.
    regions: where there are several memories for floats, the one of every buffer of floats; peaks: what each needs.
    """

    offsets: Mapping[str, int]
    float_bytes: int
    int_bytes: int
    proven_optimal: bool
    lower_bound_bytes: int
    regions: Mapping[str, str] = field(default_factory=dict)
    peaks: Mapping[str, RegionPeak] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("offsets", "regions", "peaks"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


def plan_arena(
    buffers: Sequence[Buffer],
    sharings: Sequence[Wish] = (),
    diagonals: Sequence[Diagonal] = (),
    memories: Memories | None = None,
    moved_bytes: Mapping[str, int] = MappingProxyType({}),
) -> Arena:
    """Pack the buffers. Floats and integers are two regions: C lets no object be read as another type.

    sharings: which of them lie inside others. diagonals: which may be written over others that are still read.
    memories: those of floats, where there are several; moved_bytes: what is read and written of a buffer, by its id.
    Raises DoesNotFitError where the memories are too small.
    """
    floats = (Region("float", UNBOUNDED_BYTES, ALIGNMENT_BYTES),) if memories is None else memories.regions

    def costs(buffer: Buffer) -> Mapping[str, int]:
        if memories is None or buffer.kind == "int":
            return {buffer.kind: 0}
        return memories.costs(moved_bytes.get(buffer.id, buffer.count * VALUE_BYTES))

    problem = Problem(
        (*floats, Region("int", UNBOUNDED_BYTES, ALIGNMENT_BYTES)),
        tuple(
            Request(b.id, b.count * VALUE_BYTES, b.first_step, b.last_step, costs=costs(b))
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
        sum(placement.peaks[region.name].peak_bytes for region in floats),
        placement.peaks["int"].peak_bytes,
        placement.proven_optimal,
        sum(peak.lower_bound_bytes for peak in placement.peaks.values()),
        {} if memories is None else {name: spot.region for name, spot in placement.places.items()},
        {} if memories is None else {region.name: placement.peaks[region.name] for region in floats},
    )
