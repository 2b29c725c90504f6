"""What is to be placed, for any target: buffers with lifetimes, regions with banks, aliases and diagonal overlaps.

    problem = Problem(
        regions=(Region("l1", 65_536), Region("l2", 524_288)),
        requests=(Request("x", 4096, 0, 1), Request("y", 4096, 1, 2, costs={"l1": 0, "l2": 10})),
    )
    placement = place(problem)                  # nnkit.memory.placing
    check_placement(problem, placement)         # nnkit.memory.placement_checker

Steps are integers of the caller's choice; lifetimes include both ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from nnkit.errors import InternalError
from nnkit.memory.plan import Region

UNBOUNDED_BYTES = 1 << 62
"""Capacity of a region that grows with what is put into it; its peak is then the answer."""


@dataclass(frozen=True)
class Request:
    """A buffer to place.

    fixed_offset_bytes: the offset is given; the others go around it.
    within_bank: it may not lie across a boundary of banks, in regions that have banks.
    costs: the regions that it may go to, with what each costs (any unit). Empty: any region, at no cost.
    """

    name: str
    size_bytes: int
    first_step: int
    last_step: int
    alignment_bytes: int = 1
    fixed_offset_bytes: int | None = None
    within_bank: bool = False
    costs: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "costs", MappingProxyType(dict(self.costs)))


@dataclass(frozen=True)
class Alias:
    """`inner` lies inside `outer`, `offset_bytes` from its start: a result in place of an operand, a part of a
    concatenation, a view. Whether the ops allow it, and what parts of one buffer do to each other, is the caller's
    knowledge."""

    inner: str
    outer: str
    offset_bytes: int = 0


@dataclass(frozen=True)
class Diagonal:
    """`output` may be written over `input` while it is read, if `input` starts at least `distance_bytes` above it.

    A permission, used where it helps: both in one region, meeting only in the input's last step, which is the
    output's first. `nnkit.memory.diagonal` computes distances.
    """

    input: str
    output: str
    distance_bytes: int


@dataclass(frozen=True)
class Problem:
    """All that one placement has to respect.

    bank_conflicts: pairs that may not touch the same bank while both live, in regions that have banks. For aliased
        buffers, that holds for all that share their bytes.

    Raises:
        InternalError: an unknown or repeated name, an alias that does not fit its outer or goes in a circle, a buffer
            with two outers, a distance below 1.
    """

    regions: tuple[Region, ...]
    requests: tuple[Request, ...]
    aliases: tuple[Alias, ...] = ()
    diagonals: tuple[Diagonal, ...] = ()
    bank_conflicts: frozenset[tuple[str, str]] = frozenset()

    def __post_init__(self) -> None:
        requests = self.by_name
        regions = {region.name for region in self.regions}
        if len(requests) != len(self.requests) or len(regions) != len(self.regions) or not regions:
            raise InternalError("two buffers or two regions share a name, or there is no region")
        for request in self.requests:
            unknown = set(request.costs) - regions
            if unknown:
                raise InternalError(f"it may go to {sorted(unknown)}, which is no region", where=request.name)
        mentioned = [name for alias in self.aliases for name in (alias.inner, alias.outer)]
        mentioned += [name for diagonal in self.diagonals for name in (diagonal.input, diagonal.output)]
        mentioned += [name for pair in self.bank_conflicts for name in pair]
        for name in mentioned:
            if name not in requests:
                raise InternalError("a rule names a buffer that is not to be placed", where=name)
        for diagonal in self.diagonals:
            if diagonal.distance_bytes < 1:
                raise InternalError("a diagonal overlap's distance is below 1", where=diagonal.output)
        _check_aliases(requests, self.aliases)

    @cached_property
    def by_name(self) -> dict[str, Request]:
        """The requests by their names."""
        return {request.name: request for request in self.requests}

    @cached_property
    def roots(self) -> dict[str, tuple[str, int]]:
        """For every buffer, the outermost one that holds it and the offset inside that one."""
        outer = {alias.inner: (alias.outer, alias.offset_bytes) for alias in self.aliases}
        roots = roots_of((request.name for request in self.requests), outer)
        return {request.name: roots[request.name] for request in self.requests}


@dataclass(frozen=True)
class Place:
    """Where a buffer lies."""

    region: str
    offset_bytes: int


@dataclass(frozen=True)
class RegionPeak:
    """End of a region's highest buffer, and what is proven of it for the buffers that were put there."""

    peak_bytes: int
    lower_bound_bytes: int


@dataclass(frozen=True)
class Placement:
    """A place for every buffer.

    cost: sum of the chosen regions' costs; cost_lower_bound: what no placement can do without, as far as proven.
    """

    places: Mapping[str, Place]
    peaks: Mapping[str, RegionPeak]
    cost: int
    cost_lower_bound: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", MappingProxyType(dict(self.places)))
        object.__setattr__(self, "peaks", MappingProxyType(dict(self.peaks)))

    @property
    def proven_optimal(self) -> bool:
        """Whether no placement costs less, and each region's peak is the least for what lies in it."""
        tight = all(peak.peak_bytes == peak.lower_bound_bytes for peak in self.peaks.values())
        return tight and self.cost == self.cost_lower_bound


def roots_of(names: Iterable[str], outer: Mapping[str, tuple[str, int]]) -> dict[str, tuple[str, int]]:
    """By buffer the outermost one that holds it, and its offset inside that one, in bytes.

    outer: by buffer the one that holds it, and the offset inside that. A way outwards is walked once, however many
    share it. The result also has the buffers on the way.
    """
    roots: dict[str, tuple[str, int]] = {}
    for name in names:
        between = []
        while name in outer and name not in roots:
            between.append(name)
            name = outer[name][0]
        root, offset = roots.setdefault(name, (name, 0))
        for inner in reversed(between):
            offset += outer[inner][1]
            roots[inner] = root, offset
    return roots


def _check_aliases(requests: Mapping[str, Request], aliases: tuple[Alias, ...]) -> None:
    outer: dict[str, str] = {}
    for alias in aliases:
        end = alias.offset_bytes + requests[alias.inner].size_bytes
        if alias.offset_bytes < 0 or end > requests[alias.outer].size_bytes:
            raise InternalError(f"it does not fit into {alias.outer!r}", where=alias.inner)
        if alias.inner in outer:
            raise InternalError("it is to lie inside two buffers", where=alias.inner)
        outer[alias.inner] = alias.outer
    ending = set[str]()  # whose way outwards is known to end
    for name in outer:
        seen = dict[str, None]()
        while name in outer and name not in ending:
            if name in seen:
                raise InternalError("buffers are to lie inside one another in a circle", where=name)
            seen[name] = None
            name = outer[name]
        ending.update(seen)
