"""Values in place of each other."""

from __future__ import annotations

from nnkit.memory.sharing import Life, Wish, granted


def test_a_long_chain_is_granted_whole() -> None:
    """In time of its length: of the cube of it, this would take hours."""
    count = 5000
    lives = {f"t{i}": Life(4, i, i + 1) for i in range(count)}
    wishes = tuple(Wish(f"t{i}", f"t{i + 1}", 0, i + 1, over=True) for i in range(count - 1))
    assert granted(lives, wishes) == wishes


def test_what_is_still_read_is_not_overwritten() -> None:
    lives = {"a": Life(4, 0, 3), "b": Life(4, 1, 2), "c": Life(4, 2, 3)}
    late = Wish("a", "b", 0, 1, over=True)
    last = Wish("b", "c", 0, 2, over=True)
    assert granted(lives, (late, last)) == (last,)


def test_one_operand_alone_lends_its_bytes_and_no_value_lies_in_itself() -> None:
    lives = {"a": Life(4, 0, 1), "b": Life(4, 0, 1), "c": Life(4, 1, 2)}
    first, second = Wish("a", "c", 0, 1, over=True), Wish("b", "c", 0, 1, over=True)
    assert granted(lives, (first, second, Wish("c", "a", 0, 1, over=True))) == (first,)
    part = Wish("a", "b", 0, 0, over=False)
    assert granted(lives, (part, Wish("b", "c", 0, 1, over=True, beside=("a",)))) == (part,)
