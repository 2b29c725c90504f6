"""The rows of the zoo that are kept: one JSON object a line, sorted, one for each network, exporter and target.

A row that is run again replaces its earlier one, so the file says of every network what held when it was last run.
What depends on the machine, the seconds, is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parent / "support.jsonl"
"""The rows that docs/support.md is made of."""
_KEY = ("network", "exporter", "target")
_FIELDS = (*_KEY, "status", "mismatches", "sqnr_db", "reason")
_MOST = 2000  # characters of a reason: the first refused layers of a large network

Row = Mapping[str, Any]
Key = tuple[str, ...]


def key(row: Row) -> Key:
    """What a row is about: its network, exporter and target."""
    return tuple(str(row[name]) for name in _KEY)


def read(path: Path) -> list[Row]:
    """The rows of a file; none where there is no file. Of several about the same the last one holds."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return _latest(json.loads(line) for line in lines)


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows, sorted, without what depends on the machine."""
    kept = sorted(_latest(rows), key=key)
    lines = [json.dumps({name: _short(row[name]) for name in _FIELDS}) + "\n" for row in kept]
    path.write_text("".join(lines), encoding="utf-8")


def add(path: Path, row: Row) -> None:
    """Put a row into the file, in place of an earlier one about the same."""
    write(path, [*read(path), row])


def _latest(rows: Iterable[Row]) -> list[Row]:
    return list({key(row): row for row in rows}.values())


def _short(value: object) -> object:
    return value[:_MOST] if isinstance(value, str) else value


def chosen(rows: Sequence[Row], *names: Sequence[str]) -> list[Row]:
    """The rows about these networks, exporters and targets."""
    return [row for row in rows if all(part in wanted for part, wanted in zip(key(row), names, strict=True))]
