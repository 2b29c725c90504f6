"""The compiled branch and bound against plain backtracking, and against the core's own search."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.memory import compiled, search
from nnkit.memory.engine import Effort, Item, solve
from nnkit.memory.packing import Packing, Rules

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
        for offset in (
            range(0, capacity - item.size_bytes + 1, item.alignment_bytes)
            if item.fixed_offset_bytes is None
            else [item.fixed_offset_bytes]
        )
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


@settings(max_examples=150, deadline=None)
@given(item_lists(), st.integers(1, 11), st.integers(0, 9), st.integers(1, 4), st.sampled_from(compiled.ORDERS))
def test_items_go_around_a_fixed_one(
    items: tuple[Item, ...], capacity: int, offset: int, size: int, order: compiled.Order
) -> None:
    everything = (Item("fixed", size, 2, 4, 1, offset), *items)
    packing = Packing.of(everything)
    outcome = compiled.fit_within(packing, capacity, 1_000_000, (order,))
    fits = offset + size <= capacity and fits_by_trying_every_offset(everything, capacity)
    assert (outcome.offsets is not None, outcome.exhausted) == (fits, not fits)
    if outcome.offsets is not None:
        packing.check(outcome.offsets)
        assert packing.peak(outcome.offsets) <= capacity


def fits_with_diagonals(items: Sequence[Item], rules: Rules, capacity: int, placed: tuple[int, ...] = ()) -> bool:
    """Plain backtracking; an output may overlap an input that starts high enough above it."""
    if len(placed) == len(items):
        return True
    item = items[len(placed)]

    def is_clear(offset: int, other: Item, there: int) -> bool:
        apart = offset + item.size_bytes <= there or there + other.size_bytes <= offset
        over = rules.diagonals.get((item.id, other.id))  # `item` is the input, `other` written over it
        under = rules.diagonals.get((other.id, item.id))
        granted = (over is not None and offset - there >= over) or (under is not None and there - offset >= under)
        return item.last_step < other.first_step or other.last_step < item.first_step or apart or granted

    return any(
        all(is_clear(offset, other, there) for other, there in zip(items, placed, strict=False))
        and fits_with_diagonals(items, rules, capacity, (*placed, offset))
        for offset in range(0, capacity - item.size_bytes + 1, item.alignment_bytes)
    )


@settings(max_examples=200, deadline=None)
@given(item_lists(), st.integers(1, 9), st.data())
def test_diagonal_overlaps_are_used_and_kept(items: tuple[Item, ...], capacity: int, data: st.DataObject) -> None:
    pairs = [(a, b) for a in items for b in items if a is not b and a.last_step == b.first_step]
    chosen = {(a.id, b.id): data.draw(st.integers(1, b.size_bytes)) for a, b in pairs if data.draw(st.booleans())}
    rules = Rules(diagonals=chosen)
    packing = Packing.of(items, rules)
    fits = fits_with_diagonals(items, rules, capacity)
    for order in compiled.ORDERS:
        outcome = compiled.fit_within(packing, capacity, 1_000_000, (order,))
        assert (outcome.offsets is not None, outcome.exhausted) == (fits, not fits)
        if outcome.offsets is not None:
            packing.check(outcome.offsets)
            assert packing.peak(outcome.offsets) <= capacity
    core = search.fit_within(packing, capacity, 1_000_000)
    assert (core.offsets is not None, core.exhausted) == (fits, not fits)


@settings(max_examples=40, deadline=None)
@given(item_lists(), st.integers(1, 11))
def test_every_order_gives_the_same_answer(items: tuple[Item, ...], capacity: int) -> None:
    packing = Packing.of(items)
    answers = {
        (outcome.offsets is not None, outcome.exhausted)
        for outcome in (compiled.fit_within(packing, capacity, 100_000, (order,)) for order in compiled.ORDERS)
    }
    assert len(answers) == 1


def test_the_hard_instances_are_packed(shared_dir: Path) -> None:
    """Published to fit 1,048,576 bytes; whether the packing is one is checked without the engine."""
    for path in sorted((shared_dir / "allocation").glob("*.1048576.csv")):
        with open(path, newline="") as file:
            rows = [(int(r["lower"]), int(r["upper"]), int(r["size"])) for r in csv.DictReader(file)]
        items = tuple(Item(str(n), size, a, b - 1) for n, (a, b, size) in enumerate(rows) if b > a)
        outcome = compiled.fit_within(Packing.of(items), 1_048_576, 500_000)
        assert outcome.offsets is not None, path.name
        boxes = sorted(
            (o, o + i.size_bytes, i.first_step, i.last_step) for o, i in zip(outcome.offsets, items, strict=True)
        )
        assert boxes[0][0] >= 0
        assert max(end for _, end, _, _ in boxes) <= 1_048_576
        for n, (start, end, first, last) in enumerate(boxes):
            for other_start, other_end, other_first, other_last in boxes[n + 1 :]:
                if other_start >= end:
                    break
                assert last < other_first or other_last < first, (path.name, start, other_end)
