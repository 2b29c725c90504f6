"""Names that must be unique."""

from __future__ import annotations

from collections.abc import Iterable


class NamePool:
    """Gives out names: the wanted one where it is free, else it with the first free number from 2."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def reserve(self, names: Iterable[str]) -> None:
        """Names that are not to be given out."""
        self._taken.update(names)

    def free(self, wanted: str, suffix: str = "") -> str:
        """A name that nobody has, ending in `suffix`; it is taken from now on."""
        name, count = wanted + suffix, self._next.get(wanted + suffix, 2)
        while name in self._taken:
            name, count = f"{wanted}_{count}{suffix}", count + 1
        self._next[wanted + suffix] = count
        self._taken.add(name)
        return name
