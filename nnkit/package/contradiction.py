"""What can be wrong with a file of a package, or of a build: it cannot be read, or contradicts another place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ABSENT = object()
_SHOWN_CHARACTERS = 60


class PackageFileError(Exception):
    """What is wrong with a file. file: its name in the package; reason: one sentence."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason


class UnreadableError(PackageFileError):
    """A file that is not of its form."""


class ContradictionError(PackageFileError):
    """A proof that does not hold, and the file where that shows."""


def hold_equal(file: str, said: Any, other_file: str, other: Any, *, at: str = "") -> None:
    """Raises ContradictionError for the first value of JSON data that the two files give differently.

    at: the path of both values, e.g. `memory.l2`.
    """
    if isinstance(said, Mapping) and isinstance(other, Mapping):
        for key in sorted(said.keys() | other.keys(), key=str):
            inner = f"{at}.{key}" if at else str(key)
            hold_equal(file, said.get(key, _ABSENT), other_file, other.get(key, _ABSENT), at=inner)
    elif isinstance(said, list | tuple) and isinstance(other, list | tuple):
        for index in range(max(len(said), len(other))):
            one, two = (each[index] if index < len(each) else _ABSENT for each in (said, other))
            hold_equal(file, one, other_file, two, at=f"{at}[{index}]")
    elif said != other or isinstance(said, bool) != isinstance(other, bool):
        raise ContradictionError(file, f"{at} is {_shown(said)} here, and {_shown(other)} in {other_file}")


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "missing"
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
