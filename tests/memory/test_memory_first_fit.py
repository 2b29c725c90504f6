"""First fit: the lowest free place by trying every offset, with and without rules for pairs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nnkit.memory.first_fit import ORDERS, lowest_offset, place
from nnkit.memory.packing import Item, Packing, Rules

items = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 6), st.integers(0, 3), st.sampled_from([1, 2, 4])),
    min_size=1,
    max_size=7,
).map(
    lambda rows: [
        Item(str(i), size, first, first + steps, alignment) for i, (size, first, steps, alignment) in enumerate(rows)
    ]
)


def by_trying(packing: Packing, offsets: list[int], index: int) -> int:
    """The least aligned offset at which no byte is shared with a placed item that lives at the same time."""
    item = packing.items[index]
    offset = 0
    while True:
        free = offset % item.alignment_bytes == 0
        for j, other in enumerate(packing.items):
            together = other.first_step <= item.last_step and item.first_step <= other.last_step
            if j == index or offsets[j] < 0 or not together:
                continue
            mine = set(range(offset, offset + item.size_bytes))
            free = free and not mine & set(range(offsets[j], offsets[j] + other.size_bytes))
        if free:
            return offset
        offset += 1


@given(items)
def test_every_item_lies_as_low_as_it_can(placed_items: list[Item]) -> None:
    packing = Packing.of(placed_items)
    offsets = [-1] * len(placed_items)
    for index in range(len(placed_items)):
        expected = by_trying(packing, offsets, index)
        offsets[index] = lowest_offset(packing, offsets, index)
        assert offsets[index] == expected


@given(items)
def test_rules_that_bind_nothing_change_nothing(placed_items: list[Item]) -> None:
    plain, ruled = Packing.of(placed_items), Packing.of(placed_items, Rules(bank_bytes=1 << 20))
    assert plain.is_plain
    assert not ruled.is_plain
    order = range(len(placed_items))
    assert place(plain, order) == place(ruled, order)


def test_the_orders_count_the_steps_at_both_ends() -> None:
    """100 bytes in one step, 20 in three, 30 in two from step 1 on: areas of 100, 60 and 60."""
    short, long, late = Item("short", 100, 0, 0, 1), Item("long", 20, 0, 2, 1), Item("late", 30, 1, 2, 1)
    expected = {
        "size": [short, late, long],
        "area": [short, late, long],  # of equal areas the larger first
        "lifetime": [long, late, short],
        "start": [short, long, late],
        "start, long first": [long, short, late],
        "end": [late, long, short],
    }
    assert {name: sorted([long, late, short], key=rule) for name, rule in ORDERS.items()} == expected
