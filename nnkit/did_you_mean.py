"""The known word that a misspelt one was probably meant to be, for the remedies of messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_COMPARED_CHARACTERS = 200  # comparing takes time in proportion to the square of the length
_MOST_LISTED = 16
_ALIKE = 5


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word` (letter case ignored), or None where nothing is like it."""
    return next(iter(close_to(word, known, count=1, cutoff=0.6 if len(word) > 3 else 0.5)), None)


def close_to(word: str, known: Iterable[str], *, count: int, cutoff: float) -> list[str]:
    """At most `count` known words like `word`, the most alike first, equally alike ones in the order of `known`.

    cutoff: 0 takes any word, 1 equal ones only.
    """
    matcher = difflib.SequenceMatcher()
    matcher.set_seq2(word[:_COMPARED_CHARACTERS].lower())
    alike: list[tuple[float, str]] = []
    for candidate in dict.fromkeys(known):
        matcher.set_seq1(candidate.lower())
        # The first two are bounds of the third that cost less.
        if all(ratio() >= cutoff for ratio in (matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio)):
            alike.append((matcher.ratio(), candidate))
    return [candidate for _, candidate in sorted(alike, key=lambda each: -each[0])[:count]]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The question "did you mean '...'?", or "" where no known word is like it."""
    match = nearest(word, known)
    return f"did you mean '{match}'?" if match else ""


def suggestion(word: str, known: Sequence[str], what: str, *, listed: str = "") -> str:
    """The remedy for an unknown word: the nearest known one, where there is one, and the list of all.

    listed: where all of them are told; of more than a line's worth only those like the word are named then.
    """
    if not known:
        return f"there are no {what}"
    if not listed or len(known) <= _MOST_LISTED:
        return f"{did_you_mean(word, known)} {what}: {', '.join(known)}".lstrip()
    match = nearest(word, known)
    alike = [each for each in close_to(word, known, count=_ALIKE, cutoff=0.5) if each != match]
    others = f" (or {', '.join(alike)})" if alike else ""
    question = f"did you mean '{match}'{others}? " if match else ""
    return f"{question}{listed} lists all {len(known)} {what}"
