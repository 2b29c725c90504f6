"""Runs: what repeats within a list, and that nothing of the list is lost."""

from __future__ import annotations

import pytest

from nnkit.repetition import runs


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("abab", [("a", 1), ("b", 1), ("a", 1), ("b", 1)]),  # fewer than four times: as it is
        ("aaaa", [("a", 4)]),
        ("xabcabcabcabcab", [("x", 1), ("abc", 4), ("a", 1), ("b", 1)]),
        ("aabaabaabaabc", [("aab", 4), ("c", 1)]),
        ("ababababcdcdcdcd", [("ab", 4), ("cd", 4)]),
    ],
)
def test_a_sequence_that_repeats_is_one_run(text: str, wanted: list[tuple[str, int]]) -> None:
    found = [("".join(run.items), run.times) for run in runs(text, lambda each: each)]
    assert found == wanted
    assert "".join(items * times for items, times in found) == text
