"""The offset allocator against brute force, real networks' lifetimes and hand-worked instances."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.errors import InternalError
from nnkit.memory import climb, first_fit, search
from nnkit.memory.engine import Effort, Item, solve
from nnkit.memory.packing import Packing, max_live

NETWORKS = [
    "densenet121",
    "efficientnetb0",
    "googlenet",
    "inceptionv3",
    "mnasnet",
    "mobilenetv2",
    "resnet50",
    "shufflenetv2",
    "squeezenet1.1-128",
    "ssd300",
    "unet256",
]

# (size, first step, last step): six bytes live in every step, and yet no packing takes less than seven.
GAP = [(2, 0, 0), (2, 0, 0), (2, 0, 1), (1, 1, 2), (1, 2, 2), (3, 1, 4), (1, 2, 4), (2, 3, 5), (2, 5, 5), (2, 5, 5)]
GAP_ITEMS = tuple(Item(f"i{number}", *entry) for number, entry in enumerate(GAP))


def overlap(a: Item, b: Item) -> bool:
    return a.first_step <= b.last_step and b.first_step <= a.last_step


def assert_valid(items: Sequence[Item], offsets: dict[str, int], peak: int) -> None:
    """The packing rules, spelled out without the engine."""
    for item in items:
        assert offsets[item.id] >= 0
        assert offsets[item.id] % item.alignment_bytes == 0
        if item.fixed_offset_bytes is not None:
            assert offsets[item.id] == item.fixed_offset_bytes
    for i, a in enumerate(items):
        for b in items[i + 1 :]:
            if overlap(a, b) and a.size_bytes and b.size_bytes:
                assert (
                    offsets[a.id] + a.size_bytes <= offsets[b.id] or offsets[b.id] + b.size_bytes <= offsets[a.id]
                ), (a, b)
    assert peak == max((offsets[i.id] + i.size_bytes for i in items), default=0)


def brute_force_peak(items: Sequence[Item]) -> int:
    """Least peak over all orders of dropping items onto the pile: each packing, pushed down, is one of them."""
    best = None
    movable = [i for i in items if i.fixed_offset_bytes is None]
    fixed = [(i.fixed_offset_bytes or 0, i) for i in items if i.fixed_offset_bytes is not None]
    for order in permutations(movable):
        placed = list(fixed)
        for item in order:
            candidates = {0} | {
                -(-(offset + other.size_bytes) // item.alignment_bytes) * item.alignment_bytes
                for offset, other in placed
            }
            lowest = min(
                c
                for c in candidates
                if all(
                    not overlap(item, other) or c + item.size_bytes <= offset or offset + other.size_bytes <= c
                    for offset, other in placed
                )
            )
            placed.append((lowest, item))
        peak = max(offset + i.size_bytes for offset, i in placed)
        best = peak if best is None else min(best, peak)
    assert best is not None
    return best


@st.composite
def item_lists(draw: st.DrawFn, max_items: int, steps: int = 8, aligned: bool = False) -> tuple[Item, ...]:
    count = draw(st.integers(1, max_items))
    items = []
    for index in range(count):
        first = draw(st.integers(0, steps - 1))
        last = draw(st.integers(first, steps - 1))
        alignment = draw(st.sampled_from([1, 2, 4, 8])) if aligned else 1
        items.append(Item(f"i{index}", draw(st.integers(1, 20)), first, last, alignment))
    return tuple(items)


@settings(max_examples=100)
@given(item_lists(6))
def test_small_instances_are_solved_to_the_brute_force_optimum_and_proven(items: tuple[Item, ...]) -> None:
    solution = solve(items)
    assert_valid(items, dict(solution.offsets_bytes), solution.peak_bytes)
    assert solution.peak_bytes == brute_force_peak(items)
    assert solution.proven_optimal


@settings(max_examples=100)
@given(item_lists(6, aligned=True))
def test_mixed_alignments_are_solved_to_the_brute_force_optimum(items: tuple[Item, ...]) -> None:
    solution = solve(items)
    assert_valid(items, dict(solution.offsets_bytes), solution.peak_bytes)
    assert solution.peak_bytes == brute_force_peak(items)
    assert solution.lower_bound_bytes <= solution.peak_bytes


@settings(max_examples=100)
@given(item_lists(5), st.integers(0, 30), st.integers(1, 10))
def test_items_go_around_a_fixed_one(items: tuple[Item, ...], offset: int, size: int) -> None:
    everything = (*items, Item("fixed", size, 2, 5, 1, offset))
    solution = solve(everything)
    assert_valid(everything, dict(solution.offsets_bytes), solution.peak_bytes)
    assert solution.peak_bytes == brute_force_peak(everything)


@settings(max_examples=30)
@given(item_lists(40, steps=25))
def test_larger_instances_are_valid_and_never_below_the_live_bytes(items: tuple[Item, ...]) -> None:
    solution = solve(items, Effort(climb_steps=20, search_nodes=300))
    assert_valid(items, dict(solution.offsets_bytes), solution.peak_bytes)
    live = max(sum(i.size_bytes for i in items if i.first_step <= s <= i.last_step) for s in range(25))
    assert max_live(Packing.of(items))[0] == live
    assert live <= solution.lower_bound_bytes <= solution.peak_bytes
    assert solution.proven_optimal == (solution.lower_bound_bytes == solution.peak_bytes)


@settings(max_examples=150)
@given(item_lists(6), st.integers(-3, 3))
def test_search_decides_every_capacity(items: tuple[Item, ...], slack: int) -> None:
    """It finds a packing from the optimum on and refutes everything below."""
    best = brute_force_peak(items)
    outcome = search.fit_within(Packing.of(items), best + slack, 100_000)
    assert (outcome.offsets is not None) == (slack >= 0)
    assert outcome.exhausted == (slack < 0)


def test_a_hand_worked_packing_reaches_its_bound() -> None:
    items = (Item("a", 1, 0, 1), Item("b", 2, 1, 2), Item("c", 1, 2, 3), Item("d", 2, 3, 4), Item("e", 1, 0, 4))
    solution = solve(items)
    assert solution.peak_bytes == 4  # step 1: a + b + e = 4, and likewise steps 2 and 3
    assert solution.certificate.reason == "bound"
    assert sum(item.size_bytes for item in items if item.id in solution.certificate.live) == 4


def fits_by_trying_every_offset(items: Sequence[Item], capacity: int, placed: tuple[int, ...] = ()) -> bool:
    """Plain backtracking over all offsets: no idea of this search is shared with the engine."""
    if len(placed) == len(items):
        return True
    item = items[len(placed)]
    return any(
        all(
            not overlap(item, other) or offset + item.size_bytes <= below or below + other.size_bytes <= offset
            for other, below in zip(items, placed, strict=False)
        )
        and fits_by_trying_every_offset(items, capacity, (*placed, offset))
        for offset in range(capacity - item.size_bytes + 1)
    )


def test_where_the_live_bytes_are_out_of_reach_search_proves_it() -> None:
    assert max_live(Packing.of(GAP_ITEMS))[0] == 6
    assert not fits_by_trying_every_offset(GAP_ITEMS, 6)
    assert fits_by_trying_every_offset(GAP_ITEMS, 7)
    solution = solve(GAP_ITEMS)
    assert (solution.peak_bytes, solution.lower_bound_bytes) == (7, 7)
    assert solution.proven_optimal
    assert solution.certificate.reason == "exhausted"


def test_without_search_the_gap_is_reported_open() -> None:
    solution = solve(GAP_ITEMS, Effort(climb_steps=0, search_nodes=0))
    assert solution.certificate.reason == "open"
    assert not solution.proven_optimal
    assert solution.lower_bound_bytes == 6


@pytest.mark.parametrize("network", NETWORKS)
def test_real_networks_reach_the_live_bytes(shared_dir: Path, network: str) -> None:
    with open(shared_dir / "allocation" / "nets" / f"{network}.csv") as file:
        rows = [row for row in csv.DictReader(file) if int(row["upper"]) > int(row["lower"])]
    items = tuple(
        Item(f"{number}:{row['id']}", int(row["size"]), int(row["lower"]), int(row["upper"]) - 1)
        for number, row in enumerate(rows)
    )
    solution = solve(items)
    assert_valid(items, dict(solution.offsets_bytes), solution.peak_bytes)
    steps = range(max(i.last_step for i in items) + 1)
    assert solution.peak_bytes == max(
        sum(i.size_bytes for i in items if i.first_step <= step <= i.last_step) for step in steps
    )
    assert solution.proven_optimal


def test_the_same_items_give_the_same_offsets() -> None:
    assert dict(solve(GAP_ITEMS).offsets_bytes) == dict(solve(GAP_ITEMS).offsets_bytes)


def test_hill_climbing_improves_a_bad_packing() -> None:
    items = tuple(Item(f"i{k}", 1 + k % 5, k, k + 3) for k in range(30))
    packing = Packing.of(items)
    bad = first_fit.place(packing, range(29, -1, -1))
    spread = [offset + 7 for offset in bad]
    climbed = climb.hill_climb(packing, spread, max_live(Packing.of(items))[0], 100, seed=1)
    packing.check(climbed)
    assert packing.peak(climbed) <= packing.peak(bad) < packing.peak(spread)


def test_empty_and_zero_sized_items() -> None:
    assert solve(()).peak_bytes == 0
    solution = solve((Item("nothing", 0, 0, 3), Item("some", 5, 1, 2)))
    assert (solution.peak_bytes, solution.proven_optimal) == (5, True)


def test_contradictions_are_refused() -> None:
    with pytest.raises(InternalError, match="share an id"):
        solve((Item("a", 1, 0, 0), Item("a", 2, 1, 1)))
    with pytest.raises(InternalError, match="overlap"):
        solve((Item("a", 4, 0, 1, 1, 0), Item("b", 4, 1, 2, 1, 2)))
    with pytest.raises(InternalError, match="not aligned"):
        solve((Item("a", 4, 0, 1, 4, 2),))
