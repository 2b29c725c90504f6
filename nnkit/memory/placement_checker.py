"""Independent check of a `Placement` against its `Problem`: every rule as the problem states it.

Nothing of the solver is used: neither units nor packings. Pairs that live together are compared one by one.
"""

from __future__ import annotations

from nnkit.errors import InternalError
from nnkit.memory.plan import Region
from nnkit.memory.problem import Place, Placement, Problem, Request


def check_placement(problem: Problem, placement: Placement) -> None:
    """Raise InternalError, naming the buffer, unless `placement` keeps every rule of `problem` and adds up."""
    regions = {region.name: region for region in problem.regions}
    if set(placement.places) != {request.name for request in problem.requests}:
        raise _fail("it does not place exactly the buffers asked for", "placement")
    for request in problem.requests:
        _check_alone(request, placement.places[request.name], regions)
    for alias in problem.aliases:
        inner, outer = placement.places[alias.inner], placement.places[alias.outer]
        if inner != Place(outer.region, outer.offset_bytes + alias.offset_bytes):
            raise _fail(f"it does not lie {alias.offset_bytes} bytes into {alias.outer!r}", alias.inner)
    inside = _holders(problem)
    by_start = sorted(problem.requests, key=lambda request: request.first_step)
    for index, a in enumerate(by_start):
        for other in range(index + 1, len(by_start)):
            b = by_start[other]
            if b.first_step > a.last_step:
                break  # nor do those behind it live together with a
            place_a, place_b = placement.places[a.name], placement.places[b.name]
            if place_a.region == place_b.region:
                _check_pair(problem, a, place_a, b, place_b, regions[place_a.region], inside)
    _check_sums(problem, placement)


def _fail(reason: str, where: str) -> InternalError:
    return InternalError(f"the placement is wrong: {reason}", where=where)


def _check_alone(request: Request, place: Place, regions: dict[str, Region]) -> None:
    region = regions.get(place.region)
    if region is None or (request.costs and place.region not in request.costs):
        raise _fail(f"it may not go to {place.region!r}", request.name)
    start, end = place.offset_bytes, place.offset_bytes + request.size_bytes
    if start < 0 or end > region.capacity_bytes:
        raise _fail(f"bytes {start}..{end} lie outside {region.name}", request.name)
    if start % request.alignment_bytes:
        raise _fail(f"offset {start} is no multiple of {request.alignment_bytes}", request.name)
    if request.fixed_offset_bytes is not None and start != request.fixed_offset_bytes:
        raise _fail(f"it is fixed at {request.fixed_offset_bytes} and lies at {start}", request.name)
    if request.within_bank and region.bank_bytes and len(_banks(request, place, region)) > 1:
        raise _fail(f"bytes {start}..{end} lie across banks of {region.bank_bytes}", request.name)


def _banks(request: Request, place: Place, region: Region) -> range:
    if not request.size_bytes:
        return range(0)
    last = place.offset_bytes + request.size_bytes - 1
    return range(place.offset_bytes // region.bank_bytes, last // region.bank_bytes + 1)


def _holders(problem: Problem) -> dict[str, str]:
    """For every buffer, the outermost one that it lies inside of, or itself."""
    outer = {alias.inner: alias.outer for alias in problem.aliases}
    holders: dict[str, str] = {}
    for request in problem.requests:
        name, passed = request.name, list[str]()
        while name in outer and name not in holders:
            passed.append(name)
            name = outer[name]
        holders.update(dict.fromkeys([*passed, name], holders.get(name, name)))
    return holders


def _check_pair(
    problem: Problem, a: Request, place_a: Place, b: Request, place_b: Place, region: Region,
    inside: dict[str, str],
) -> None:  # fmt: skip
    start = max(place_a.offset_bytes, place_b.offset_bytes)
    end = min(place_a.offset_bytes + a.size_bytes, place_b.offset_bytes + b.size_bytes)
    if inside[a.name] == inside[b.name]:
        return  # parts of one buffer, at the offsets that their aliases say
    conflicting = (a.name, b.name) in problem.bank_conflicts or (b.name, a.name) in problem.bank_conflicts
    if region.bank_bytes and conflicting:
        shared = set(_banks(a, place_a, region)) & set(_banks(b, place_b, region))
        if shared:
            raise _fail(f"it shares bank {min(shared)} of {region.name} with {b.name!r}", a.name)
    if start >= end:
        return
    if not (_diagonal(problem, a, place_a, b, place_b) or _diagonal(problem, b, place_b, a, place_a)):
        raise _fail(f"it overlaps {b.name!r} in bytes {start}..{end} of {region.name}", a.name)


def _diagonal(problem: Problem, source: Request, above: Place, result: Request, below: Place) -> bool:
    """Whether `result` may overlap `source` as they lie."""
    return any(
        diagonal.input == source.name
        and diagonal.output == result.name
        and source.last_step == result.first_step
        and above.offset_bytes - below.offset_bytes >= diagonal.distance_bytes
        for diagonal in problem.diagonals
    )


def _check_sums(problem: Problem, placement: Placement) -> None:
    cost = sum(r.costs.get(placement.places[r.name].region, 0) for r in problem.requests)
    if cost != placement.cost or placement.cost_lower_bound > cost:
        raise _fail(f"it costs {cost}, not {placement.cost}", "cost")
    for region in problem.regions:
        ends = [
            placement.places[r.name].offset_bytes + r.size_bytes
            for r in problem.requests
            if placement.places[r.name].region == region.name
        ]
        peak = placement.peaks[region.name]
        if peak.peak_bytes != max(ends, default=0) or peak.lower_bound_bytes > peak.peak_bytes:
            raise _fail(f"its buffers end at {max(ends, default=0)}, not {peak.peak_bytes}", region.name)
