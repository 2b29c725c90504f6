"""Names that must be unique, and not longer than the reader of the files takes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

_DIGEST_LENGTH = 6


def shortened(name: str, suffix: str, most_bytes: int, original: str | None = None) -> str:
    """`name` + `suffix`; beyond `most_bytes` the name is cut, and gets a part of its digest before the suffix.

    original: what the digest is of where `name` is not the whole truth.
    """
    if len((name + suffix).encode()) <= most_bytes:
        return name + suffix
    digest = hashlib.sha256((original or name).encode()).hexdigest()[:_DIGEST_LENGTH]
    room = most_bytes - len(suffix.encode()) - _DIGEST_LENGTH - 1
    return f"{name.encode()[:room].decode(errors='ignore')}-{digest}{suffix}"


class NamePool:
    """Gives out names: the wanted one where it is free, else it with the first free number from 2.

    most_bytes: longer ones are shortened.
    """

    def __init__(self, taken: Iterable[str] = (), most_bytes: int | None = None) -> None:
        self._taken = set(taken)
        self._most_bytes = most_bytes
        self._next: dict[str, int] = {}

    def reserve(self, names: Iterable[str]) -> None:
        """Names that are not to be given out."""
        self._taken.update(names)

    def free(self, wanted: str, suffix: str = "") -> str:
        """A name that nobody has, ending in `suffix`; it is taken from now on."""
        name, count = self._fitting(wanted, suffix), self._next.get(wanted + suffix, 2)
        while name in self._taken:
            name, count = self._fitting(f"{wanted}_{count}", suffix), count + 1
        self._next[wanted + suffix] = count
        self._taken.add(name)
        return name

    def _fitting(self, name: str, suffix: str) -> str:
        return name + suffix if self._most_bytes is None else shortened(name, suffix, self._most_bytes)


def yaml_name(name: str) -> str:
    """The name as YAML has it: in quotes where it needs them."""
    letters = name.replace("_", "").replace("/", "").replace(".", "")
    plain = letters.isalnum() and letters.isascii() and not letters.isdigit()
    return name if plain else json.dumps(name, ensure_ascii=False)
