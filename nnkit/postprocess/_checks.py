"""The range check that the stages' parameters share."""

from __future__ import annotations

import numpy as np

from nnkit.errors import UsageError


def require_range(where: str, value: int, low: int, high: int) -> None:
    """Raises UsageError unless `value` is a whole number from `low` to `high`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise UsageError(
            f"{value!r} is out of range", where=where, remedy=f"choose a whole number from {low} to {high}"
        )
