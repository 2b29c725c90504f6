"""CP-SAT and the race: answers against plain backtracking; the extra changes no peak and no certificate."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.memory import cp_sat, race
from nnkit.memory.engine import Effort, Item, solve
from nnkit.memory.packing import Packing, Rules

pytest.importorskip("ortools")

# Six bytes live in every step, and yet no packing takes less than seven: (size, first step, last step).
GAP = [(2, 0, 0), (2, 0, 0), (2, 0, 1), (1, 1, 2), (1, 2, 2), (3, 1, 4), (1, 2, 4), (2, 3, 5), (2, 5, 5), (2, 5, 5)]
GAP_ITEMS = tuple(Item(f"i{number}", *entry) for number, entry in enumerate(GAP))
CORE = Effort(climb_steps=0, search_nodes=200_000)
EXTRA = Effort(climb_steps=0, search_nodes=0, solver_nodes=4_000_000)


def fits_by_trying_every_offset(items: Sequence[Item], capacity: int, placed: tuple[int, ...] = ()) -> bool:
    if len(placed) == len(items):
        return True
    item = items[len(placed)]
    places = (
        range(0, capacity - item.size_bytes + 1, item.alignment_bytes)
        if item.fixed_offset_bytes is None
        else [item.fixed_offset_bytes]
    )
    return any(
        offset + item.size_bytes <= capacity
        and all(
            item.last_step < other.first_step
            or other.last_step < item.first_step
            or offset + item.size_bytes <= below
            or below + other.size_bytes <= offset
            for other, below in zip(items, placed, strict=False)
        )
        and fits_by_trying_every_offset(items, capacity, (*placed, offset))
        for offset in places
    )


@st.composite
def item_lists(draw: st.DrawFn, max_items: int = 6) -> tuple[Item, ...]:
    unit = draw(st.sampled_from([1, 1, 2, 4]))
    items = []
    for index in range(draw(st.integers(1, max_items))):
        first = draw(st.integers(0, 6))
        alignment = draw(st.sampled_from([1, 1, 2, 3]))
        size = unit * draw(st.integers(1, 4))
        items.append(Item(f"i{index}", size, first, draw(st.integers(first, 6)), alignment))
    return tuple(items)


@settings(max_examples=60, deadline=None)
@given(item_lists(5), st.integers(1, 14), st.integers(0, 8))
def test_cp_sat_decides_every_capacity_as_backtracking_does(
    items: tuple[Item, ...], capacity: int, offset: int
) -> None:
    everything = (Item("fixed", 2, 2, 4, 1, offset), *items)
    packing = Packing.of(everything)
    outcome = cp_sat.fit_within(packing, capacity, 3_000_000)
    fits = fits_by_trying_every_offset(everything, capacity)
    assert (outcome.offsets is not None, outcome.exhausted) == (fits, not fits)
    if outcome.offsets is not None:
        packing.check(outcome.offsets)
        assert packing.peak(outcome.offsets) <= capacity


@settings(max_examples=60, deadline=None)
@given(item_lists(9))
def test_the_extra_finds_the_same_peak_and_certificate_as_the_core(items: tuple[Item, ...]) -> None:
    core, extra = solve(items, CORE), solve(items, EXTRA)
    assert core.proven_optimal
    assert extra.proven_optimal
    assert (core.peak_bytes, core.lower_bound_bytes) == (extra.peak_bytes, extra.lower_bound_bytes)
    assert core.certificate.reason == extra.certificate.reason


def test_the_gap_is_refuted_by_each_solver_and_by_the_race() -> None:
    packing = Packing.of(GAP_ITEMS)
    assert cp_sat.fit_within(packing, 6, 3_000_000).exhausted
    assert race.fit_within(packing, 6, 3_000_000).outcome.exhausted
    assert race.fit_within(packing, 7, 3_000_000).outcome.offsets is not None


def test_cp_sat_alone_closes_the_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnkit.memory.compiled.is_installed", lambda: False)
    solution = solve(GAP_ITEMS, EXTRA)
    assert (solution.peak_bytes, solution.lower_bound_bytes, solution.certificate.reason) == (7, 7, "exhausted")


def test_without_any_solver_the_gap_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnkit.memory.compiled.is_installed", lambda: False)
    monkeypatch.setattr("nnkit.memory.cp_sat.is_installed", lambda: False)
    solution = solve(GAP_ITEMS, EXTRA)
    assert (solution.lower_bound_bytes, solution.certificate.reason) == (6, "open")


def test_a_race_repeats_to_the_byte() -> None:
    items = tuple(Item(f"i{k}", 3 + 7 * k % 11, k * 5 % 17, k * 5 % 17 + k % 6) for k in range(40))
    packing = Packing.of(items)
    bound = solve(items, Effort(0, 0)).lower_bound_bytes
    assert race.fit_within(packing, bound, 200_000) == race.fit_within(packing, bound, 200_000)
    assert cp_sat.fit_within(packing, bound, 300_000) == cp_sat.fit_within(packing, bound, 300_000)


def test_rules_that_a_solver_does_not_know_are_left_to_the_others() -> None:
    pair = (Item("in", 4, 0, 1), Item("out", 4, 1, 2))
    assert not cp_sat.applies(Packing.of(pair, Rules(diagonals={("in", "out"): 1})))
    assert not cp_sat.applies(Packing.of(pair, Rules(bank_bytes=8, bank_conflicts=frozenset({("in", "out")}))))
    assert cp_sat.applies(Packing.of(pair))


def test_without_any_work_allowed_nothing_is_claimed() -> None:
    result = race.fit_within(Packing.of(GAP_ITEMS, Rules()), 6, 0)
    assert (result.outcome.offsets, result.outcome.exhausted, result.outcome.nodes) == (None, False, 0)
