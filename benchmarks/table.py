"""Rows of a benchmark as text for people or JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Cell: TypeAlias = str | int | float | None
Row: TypeAlias = Mapping[str, Cell]


def show(rows: Sequence[Row], *, as_json: bool, title: str = "") -> None:
    """Print rows; the columns are the keys in order of first appearance."""
    if as_json:
        print(json.dumps(list(rows), indent=2))
        return
    if title:
        print(f"\n{title}")
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, *[[_text(row.get(column)) for column in columns] for row in rows]]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    numeric = [all(not isinstance(row.get(column), str) for row in rows) for column in columns]
    for line in lines:
        cells = [c.rjust(w) if right else c.ljust(w) for c, w, right in zip(line, widths, numeric, strict=True)]
        print("  ".join(cells).rstrip())


def ratio(peer: float | None, ours: float | None) -> float | None:
    """peer / ours, three decimals; None where either was not measured."""
    return round(peer / ours, 3) if peer is not None and ours else None


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.3f}" if isinstance(cell, float) else cell
