"""Text and CSV."""

from __future__ import annotations

import csv
from pathlib import Path

from nnkit.errors import UserFileError
from nnkit.reading.regular_file import read_bytes

MAX_TEXT_BYTES = 1 << 30


def read_text(path: Path, *, what: str, remedy: str, limit_bytes: int = MAX_TEXT_BYTES) -> str:
    """A file of UTF-8, a byte order mark left out.

    what: the file in messages, e.g. `the table`. remedy: of a file that is no text.

    Raises:
        UserFileError: it cannot be read, has `limit_bytes` or more, or is not UTF-8.
    """
    data = read_bytes(path, what=what, limit_bytes=limit_bytes)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserFileError(f"{what} is not UTF-8 text", where=f"{path}:{line}", remedy=remedy) from error


def read_csv(path: Path, *, what: str, remedy: str) -> list[tuple[int, list[str]]]:
    """The rows of a CSV file with the numbers of their lines, from 1. Arguments, raises: as `read_text`."""
    lines = read_text(path, what=what, remedy=remedy).splitlines()
    rows: list[tuple[int, list[str]]] = []
    reader = enumerate(csv.reader(lines), start=1)
    try:
        rows.extend(reader)
    except csv.Error as error:  # a field of more than 128 KiB
        raise UserFileError(f"{what} is not CSV: {error}", where=f"{path}:{len(rows) + 1}", remedy=remedy) from error
    return rows
