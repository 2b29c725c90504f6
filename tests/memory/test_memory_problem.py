"""The allocator's whole model against brute force on bytes, and the checker against rules spelled out here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.errors import DoesNotFitError, InternalError
from nnkit.memory.engine import Effort
from nnkit.memory.placement_checker import check_placement
from nnkit.memory.placing import lower_bound_bytes, place
from nnkit.memory.plan import Region
from nnkit.memory.problem import UNBOUNDED_BYTES, Alias, Diagonal, Place, Placement, Problem, RegionPeak, Request

EFFORT = Effort(climb_steps=20, search_nodes=20_000)


def is_allowed(problem: Problem, places: dict[str, Place]) -> bool:
    """Every rule, byte by byte and step by step."""
    regions = {region.name: region for region in problem.regions}
    requests = {request.name: request for request in problem.requests}
    outer = {alias.inner: alias.outer for alias in problem.aliases}
    used = {}
    for name, request in requests.items():
        spot = places[name]
        region = regions[spot.region]
        used[name] = {
            (spot.region, byte) for byte in range(spot.offset_bytes, spot.offset_bytes + request.size_bytes)
        }
        alone = (
            (not request.costs or spot.region in request.costs)
            and spot.offset_bytes + request.size_bytes <= region.capacity_bytes
            and spot.offset_bytes % request.alignment_bytes == 0
            and request.fixed_offset_bytes in (None, spot.offset_bytes)
        )
        banks = {byte // region.bank_bytes for _, byte in used[name]} if region.bank_bytes else set()
        if not alone or (request.within_bank and len(banks) > 1):
            return False
    for alias in problem.aliases:
        wanted = Place(places[alias.outer].region, places[alias.outer].offset_bytes + alias.offset_bytes)
        if places[alias.inner] != wanted:
            return False
    for a, b in product(requests, requests):
        steps = set(range(requests[a].first_step, requests[a].last_step + 1))
        steps &= set(range(requests[b].first_step, requests[b].last_step + 1))
        if a == b or not steps or outer.get(a) == b or outer.get(b) == a:
            continue
        conflict = (a, b) in problem.bank_conflicts
        bank = regions[places[a].region].bank_bytes
        if conflict and bank and {(r, x // bank) for r, x in used[a]} & {(r, x // bank) for r, x in used[b]}:
            return False
        if used[a] & used[b]:
            granted = [
                d
                for d in problem.diagonals
                for i, o in ((a, b), (b, a))
                if (d.input, d.output) == (i, o)
                and requests[i].last_step == requests[o].first_step
                and places[i].offset_bytes - places[o].offset_bytes >= d.distance_bytes
            ]
            if not granted:
                return False
    return True


def all_places(problem: Problem) -> Iterator[dict[str, Place]]:
    spots = [
        [
            Place(region.name, offset)
            for region in problem.regions
            for offset in range(region.capacity_bytes - request.size_bytes + 1)
        ]
        for request in problem.requests
    ]
    for chosen in product(*spots):
        yield {request.name: spot for request, spot in zip(problem.requests, chosen, strict=True)}


def as_placement(problem: Problem, places: dict[str, Place]) -> Placement:
    """With the sums that belong to it."""
    peaks = {}
    for region in problem.regions:
        ends = [
            places[r.name].offset_bytes + r.size_bytes
            for r in problem.requests
            if places[r.name].region == region.name
        ]
        peaks[region.name] = RegionPeak(max(ends, default=0), 0)
    cost = sum(r.costs.get(places[r.name].region, 0) for r in problem.requests)
    return Placement(places, peaks, cost, 0)


@st.composite
def problems(draw: st.DrawFn, regions: int = 1, capacity: int = 8) -> Problem:
    bank = draw(st.sampled_from([0, 0, 4]))
    spaces = tuple(Region(f"r{k}", draw(st.integers(4, capacity)), 1, bank) for k in range(regions))
    count = draw(st.integers(2, 4 if regions == 1 else 3))
    requests = []
    for index in range(count):
        first = draw(st.integers(0, 3))
        size = draw(st.integers(1, 4))
        fixed = draw(st.sampled_from([None, None, None, 0, 2])) if index == 0 else None
        alignment = draw(st.sampled_from([1, 1, 2])) if fixed is None else 1
        costs = {space.name: draw(st.integers(0, 3)) for space in spaces if draw(st.booleans())}
        within = bool(bank) and fixed is None and draw(st.booleans())
        last = draw(st.integers(first, 3))
        requests.append(Request(f"b{index}", size, first, last, alignment, fixed, within, costs))
    names = [request.name for request in requests]
    aliases = []
    if draw(st.booleans()) and requests[1].size_bytes <= requests[-1].size_bytes and not requests[1].within_bank:
        room = requests[-1].size_bytes - requests[1].size_bytes
        offset = draw(st.integers(0, room)) // requests[1].alignment_bytes * requests[1].alignment_bytes
        if count > 2:
            aliases.append(Alias(names[1], names[-1], offset))
    diagonals = [
        Diagonal(a.name, b.name, draw(st.integers(1, b.size_bytes)))
        for a in requests
        for b in requests
        if a is not b and a.last_step == b.first_step and draw(st.booleans())
    ]
    conflicts = frozenset((a, b) for a in names for b in names if a < b and bank and draw(st.integers(0, 3)) == 0)
    return Problem(spaces, tuple(requests), tuple(aliases), tuple(diagonals), conflicts)


def is_exact(problem: Problem) -> bool:
    """Sharing bytes is solved by whole units, which may be dearer than what the rules allow."""
    return not problem.aliases


@settings(max_examples=150, deadline=None)
@given(problems())
def test_one_region_is_packed_to_the_brute_force_peak(problem: Problem) -> None:
    valid = [places for places in all_places(problem) if is_allowed(problem, places)]
    try:
        placement = place(problem, EFFORT)
    except DoesNotFitError:
        assert not (valid and is_exact(problem))
        return
    except InternalError:
        assert problem.aliases or problem.requests[0].fixed_offset_bytes is not None or problem.requests[0].costs
        assert not (valid and is_exact(problem))
        return
    check_placement(problem, placement)
    assert is_allowed(problem, dict(placement.places))
    if is_exact(problem):
        peaks = [as_placement(problem, places).peaks["r0"].peak_bytes for places in valid]
        assert placement.peaks["r0"].peak_bytes == min(peaks)
        assert placement.proven_optimal


@settings(max_examples=100, deadline=None)
@given(problems(regions=2, capacity=6))
def test_two_regions_cost_what_brute_force_finds(problem: Problem) -> None:
    valid = [places for places in all_places(problem) if is_allowed(problem, places)]
    try:
        placement = place(problem, EFFORT)
    except (DoesNotFitError, InternalError):
        assert not (valid and is_exact(problem))
        return
    check_placement(problem, placement)
    assert is_allowed(problem, dict(placement.places))
    if is_exact(problem):
        assert placement.cost == min(as_placement(problem, places).cost for places in valid)
        assert placement.cost_lower_bound == placement.cost


@settings(max_examples=300, deadline=None)
@given(problems(regions=2), st.data())
def test_the_checker_agrees_with_the_rules_spelled_out(problem: Problem, data: st.DataObject) -> None:
    places = {
        request.name: Place(
            data.draw(st.sampled_from([region.name for region in problem.regions])), data.draw(st.integers(0, 6))
        )
        for request in problem.requests
    }
    for alias in problem.aliases:
        if data.draw(st.booleans()):
            outer = places[alias.outer]
            places[alias.inner] = Place(outer.region, outer.offset_bytes + alias.offset_bytes)
    placement = as_placement(problem, places)
    if is_allowed(problem, places):
        check_placement(problem, placement)
    else:
        with pytest.raises(InternalError, match="the placement is wrong"):
            check_placement(problem, placement)


def test_a_hand_worked_plan_with_every_rule() -> None:
    """A convolution into a part of a concatenation, a pool over its own input, weights apart by bank."""
    problem = Problem(
        regions=(Region("near", 64, 1, 16), Region("far", 1024, 1)),
        requests=(
            Request("x", 16, 0, 1),
            Request("y", 8, 1, 2, costs={"near": 0}),
            Request("cat", 12, 2, 3, costs={"near": 0}),
            Request("pool", 12, 3, 3, costs={"near": 0}),
            Request("w", 16, 1, 1, within_bank=True, costs={"near": 0, "far": 5}),
            Request("table", 900, 0, 3, costs={"near": 0, "far": 7}),
        ),
        aliases=(Alias("y", "cat", 4),),
        diagonals=(Diagonal("cat", "pool", 3),),
        bank_conflicts=frozenset({("x", "w"), ("w", "y")}),
    )
    placement = place(problem)
    check_placement(problem, placement)
    assert placement.cost == 7  # the table is too large for `near`; all else fits there
    assert placement.places["y"].offset_bytes == placement.places["cat"].offset_bytes + 4
    # Step 1: x, cat (for y) and w need 16 + 12 + 16 bytes, and w a bank that neither touches.
    assert placement.peaks["near"].peak_bytes == 44
    assert placement.proven_optimal


def test_two_views_of_a_buffer_may_live_at_once() -> None:
    requests = (Request("x", 10, 0, 1), Request("flat", 10, 1, 3), Request("row", 4, 2, 3), Request("y", 5, 1, 3))
    problem = Problem((Region("ram", 15, 1),), requests, aliases=(Alias("flat", "x"), Alias("row", "x", 3)))
    placement = place(problem)
    check_placement(problem, placement)
    assert placement.places["row"].offset_bytes == placement.places["x"].offset_bytes + 3
    assert placement.peaks["ram"].peak_bytes == 15


def test_a_chain_of_diagonal_overlaps_takes_little_more_than_one_buffer() -> None:
    requests = tuple(Request(f"t{k}", 100, k, k + 1) for k in range(6))
    chain = tuple(Diagonal(f"t{k}", f"t{k + 1}", 10) for k in range(5))
    placement = place(Problem((Region("ram", 1000, 1),), requests, diagonals=chain))
    check_placement(Problem((Region("ram", 1000, 1),), requests, diagonals=chain), placement)
    # Each lies 10 below the one before it, or starts anew above: never more than two buffers' bytes.
    assert placement.peaks["ram"].peak_bytes < 200
    assert place(Problem((Region("ram", 1000, 1),), requests)).peaks["ram"].peak_bytes == 200


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=9))
def test_addresses_follow_the_order_of_the_requests_and_not_their_names(sizes: list[tuple[int, int, int]]) -> None:
    def offsets(names: list[str]) -> list[int]:
        requests = tuple(Request(n, size, at, at + more) for n, (size, at, more) in zip(names, sizes, strict=True))
        placement = place(Problem((Region("ram", UNBOUNDED_BYTES, 1),), requests), EFFORT)
        return [placement.places[name].offset_bytes for name in names]

    names = [f"t{index}" for index in range(len(sizes))]
    assert offsets(names) == offsets(names[::-1])


def test_the_lower_bound_of_a_region_counts_what_may_go_nowhere_else() -> None:
    requests = (
        Request("here", 10, 0, 1, costs={"near": 0}),
        Request("too", 5, 1, 1, costs={"near": 3}),
        Request("later", 12, 2, 2, costs={"near": 0}),
        Request("either", 100, 0, 2, costs={"near": 0, "far": 1}),
    )
    problem = Problem((Region("near", 200, 4), Region("far", 200, 1)), requests)
    # Step 1: 10 bytes, rounded up to the region's alignment, with 5 above them.
    assert lower_bound_bytes(problem, "near") == 17
    assert lower_bound_bytes(problem, "far") == 0


def test_what_cannot_fit_is_proven_so() -> None:
    with pytest.raises(DoesNotFitError, match="no placement exists"):
        place(Problem((Region("a", 8, 1), Region("b", 8, 1)), tuple(Request(f"t{k}", 5, 0, 0) for k in range(3))))


def test_hundreds_of_buffers_go_to_two_regions() -> None:
    requests = tuple(Request(f"t{k}", 1 + k % 7, k // 4, k // 4 + 2, costs={"a": 0, "b": 1}) for k in range(300))
    problem = Problem((Region("a", 40, 1), Region("b", 80, 1)), requests)
    placement = place(problem, Effort(climb_steps=0, search_nodes=3000))
    check_placement(problem, placement)
    assert placement.cost_lower_bound <= placement.cost


def test_with_no_effort_for_a_search_the_near_region_holds_what_saves_most_there() -> None:
    """Four bytes of it hold one buffer that saves 1, or four that save 10 each; the larger one is looked at first."""
    costs = {"near": 0, "far": 10}
    small = tuple(Request(f"small{k}", 1, 0, 1, costs=costs) for k in range(4))
    large = Request("large", 4, 0, 1, costs={"near": 0, "far": 1})
    problem = Problem((Region("near", 4, 1), Region("far", 64, 1)), (large, *small))
    placement = place(problem, Effort(climb_steps=0, search_nodes=0))
    check_placement(problem, placement)
    assert placement.places["large"].region == "far"
    assert placement.cost == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"aliases": (Alias("a", "b", 3),)}, "does not fit into"),
        ({"aliases": (Alias("a", "b"), Alias("b", "a"))}, "circle"),
        ({"aliases": (Alias("a", "b"), Alias("a", "c"))}, "inside two"),
        ({"diagonals": (Diagonal("a", "z", 1),)}, "not to be placed"),
        ({"diagonals": (Diagonal("a", "b", 0),)}, "below 1"),
        ({"regions": ()}, "no region"),
    ],
)
def test_contradictions_are_refused(change: dict[str, object], message: str) -> None:
    parts: dict[str, object] = {
        "regions": (Region("ram", 10, 1),),
        "requests": tuple(Request(name, 2, 0, 1) for name in "abc"),
    }
    with pytest.raises(InternalError, match=message):
        Problem(**{**parts, **change})  # type: ignore[arg-type]


@pytest.mark.parametrize(("offset", "allowed"), [(4, True), (2, False)])
def test_a_part_lies_at_the_sum_of_both_offsets(offset: int, allowed: bool) -> None:
    problem = Problem(
        (Region("ram", 16, 1),), (Request("whole", 8, 0, 1), Request("part", 4, 0, 1)), (Alias("part", "whole", 1),)
    )
    placement = as_placement(problem, {"whole": Place("ram", 3), "part": Place("ram", offset)})
    if allowed:
        check_placement(problem, placement)
    else:
        with pytest.raises(InternalError, match="does not lie 1 bytes into 'whole'"):
            check_placement(problem, placement)


def test_a_chain_of_parts_takes_time_of_its_length() -> None:
    """20,000 buffers, each inside the next: walking each way outwards anew took minutes."""
    count = 20_000
    names = [f"b{index}" for index in range(count)]
    began = process_time()
    problem = Problem(
        (Region("ram", count + 1, 1),),
        tuple(Request(name, index + 1, index, index + 1) for index, name in enumerate(names)),
        tuple(Alias(inner, outer, 1) for inner, outer in pairwise(names)),
    )
    assert problem.roots[names[0]] == (names[-1], count - 1)
    places = {name: Place("ram", count - 1 - index) for index, name in enumerate(names)}
    check_placement(problem, as_placement(problem, places))
    assert process_time() - began < 10
