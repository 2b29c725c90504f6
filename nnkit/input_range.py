"""What an input of a network can hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InputRange:
    """Least and greatest value, in real units. integral: whole numbers only (raw pixels), stored as they are."""

    low: float
    high: float
    integral: bool
