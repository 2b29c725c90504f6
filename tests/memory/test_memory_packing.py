"""The allocator's problem refuses what contradicts itself, whatever else is right."""

from __future__ import annotations

import pytest

from nnkit.errors import InternalError
from nnkit.memory.engine import Item
from nnkit.memory.packing import Packing, Rules

BANKS = Rules(bank_bytes=64)


@pytest.mark.parametrize(
    ("item", "rules", "reason"),
    [
        (Item("a", -1, 0, 0), Rules(), "negative size, lifetime or alignment"),
        (Item("a", 4, 3, 2), Rules(), "negative size, lifetime or alignment"),
        (Item("a", 4, 0, 0, 0), Rules(), "negative size, lifetime or alignment"),
        (Item("a", 4, 0, 0, 48), BANKS, "no multiple of an item's alignment"),
        (Item("a", 65, 0, 0, within_bank=True), BANKS, "larger than one"),
        (Item("a", 4, 0, 0, fixed_offset_bytes=-4), Rules(), "negative or not aligned"),
        (Item("a", 4, 0, 0, 4, fixed_offset_bytes=6), Rules(), "negative or not aligned"),
        (Item("a", 4, 0, 0, fixed_offset_bytes=62, within_bank=True), BANKS, "lies across two banks"),
    ],
)
def test_an_item_that_contradicts_itself_is_refused_by_name(item: Item, rules: Rules, reason: str) -> None:
    with pytest.raises(InternalError, match=reason) as caught:
        Packing.of((item,), rules)
    assert caught.value.where == "a"


def test_what_just_fits_is_taken() -> None:
    Packing.of((Item("a", 0, 0, 0), Item("b", 64, 0, 0, 64, fixed_offset_bytes=64, within_bank=True)), BANKS)
