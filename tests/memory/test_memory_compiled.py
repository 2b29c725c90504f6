"""The compiled branch and bound against plain backtracking, and against the core's own search."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.memory import compiled
from nnkit.memory.engine import Effort, Item, solve
from nnkit.memory.packing import Packing

# Six bytes live in every step, and yet no packing takes less than seven: (size, first step, last step).
GAP = [(2, 0, 0), (2, 0, 0), (2, 0, 1), (1, 1, 2), (1, 2, 2), (3, 1, 4), (1, 2, 4), (2, 3, 5), (2, 5, 5), (2, 5, 5)]
GAP_ITEMS = tuple(Item(f"i{number}", *entry) for number, entry in enumerate(GAP))


def fits_by_trying_every_offset(items: Sequence[Item], capacity: int, placed: tuple[int, ...] = ()) -> bool:
    if len(placed) == len(items):
        return True
    item = items[len(placed)]
    return any(
        all(
            item.last_step < other.first_step
            or other.last_step < item.first_step
            or offset + item.size_bytes <= below
            or below + other.size_bytes <= offset
            for other, below in zip(items, placed, strict=False)
        )
        and fits_by_trying_every_offset(items, capacity, (*placed, offset))
        for offset in range(0, capacity - item.size_bytes + 1, item.alignment_bytes)
    )


@st.composite
def item_lists(draw: st.DrawFn) -> tuple[Item, ...]:
    items = []
    for index in range(draw(st.integers(1, 7))):
        first = draw(st.integers(0, 6))
        alignment = draw(st.sampled_from([1, 1, 2, 3]))
        items.append(Item(f"i{index}", draw(st.integers(1, 4)), first, draw(st.integers(first, 6)), alignment))
    return tuple(items)


@settings(max_examples=150, deadline=None)
@given(item_lists(), st.integers(1, 11))
def test_it_decides_every_capacity_as_backtracking_does(items: tuple[Item, ...], capacity: int) -> None:
    packing = Packing.of(items)
    outcome = compiled.fit_within(packing, capacity, 1_000_000)
    fits = fits_by_trying_every_offset(items, capacity)
    assert (outcome.offsets is not None, outcome.exhausted) == (fits, not fits)
    if outcome.offsets is not None:
        packing.check(outcome.offsets)
        assert packing.peak(outcome.offsets) <= capacity


def test_the_extra_proves_the_same_peak_as_the_core() -> None:
    core = solve(GAP_ITEMS)
    extra = solve(GAP_ITEMS, Effort(climb_steps=0, search_nodes=0, solver_nodes=100_000))
    assert (core.peak_bytes, core.lower_bound_bytes, core.certificate.reason) == (7, 7, "exhausted")
    assert (extra.peak_bytes, extra.lower_bound_bytes, extra.certificate.reason) == (7, 7, "exhausted")


def test_a_goal_within_reach_is_met_and_the_answer_repeats() -> None:
    effort = Effort(climb_steps=0, search_nodes=0, solver_nodes=100_000)
    first, second = (solve(GAP_ITEMS, effort, goal_bytes=8) for _ in range(2))
    assert first.peak_bytes <= 8
    assert dict(first.offsets_bytes) == dict(second.offsets_bytes)


def test_without_nodes_it_answers_nothing() -> None:
    outcome = compiled.fit_within(Packing.of(GAP_ITEMS), 6, 0)
    assert (outcome.offsets, outcome.exhausted) == (None, False)


def test_fixed_items_are_left_to_the_core() -> None:
    assert not compiled.applies(Packing.of((Item("a", 1, 0, 0, 1, 4),)))
    assert compiled.applies(Packing.of(GAP_ITEMS))
