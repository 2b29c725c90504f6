"""What a cell of a CSV file says to a spreadsheet."""

from __future__ import annotations

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def plain_cell(cell: object) -> object:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it, which marks text there.

    Names of layers are a stranger's. Numbers, negative ones as well, stay as they are.
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULAS) else cell
