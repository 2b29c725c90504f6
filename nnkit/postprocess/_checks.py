"""The checks that the stages' parameters share."""

from __future__ import annotations

import numpy as np

from nnkit.errors import UsageError
from nnkit.program.formats import Fixed


def require_range(where: str, value: int, low: int, high: int) -> None:
    """Raises UsageError unless `value` is a whole number from `low` to `high`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise UsageError(
            f"{value!r} is out of range", where=where, remedy=f"choose a whole number from {low} to {high}"
        )


def require_storage(where: str, number: Fixed, low_frac: int, high_frac: int) -> None:
    """Raises UsageError unless `number` has 8 or 16 bits and fraction bits from `low_frac` to `high_frac`."""
    if number.bits not in (8, 16) or not low_frac <= number.frac <= high_frac:
        raise UsageError(
            f"{number} is not supported",
            where=where,
            remedy=f"use 8 or 16 bits, and {low_frac} to {high_frac} fraction bits",
        )
