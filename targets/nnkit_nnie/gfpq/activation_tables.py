"""Sigmoid and TanH as the NNIE has them: tables of 512 int16 in Q15, for x from -16 to 16 in steps of 1/16.

Entry i of the Sigmoid table is floor(2^15 sigmoid(-16 + i / 16)); entry i of the TanH table is
trunc(2^15 tanh(-16 + (i + 1/2) / 16)), the value in the middle of the step.

Source: files that the vendor's mapper made, which hold both tables, the same in all of them, equal to these formulas
in every entry. How the chip reads between two entries is not known: here it interpolates linearly, and beyond
them takes the first and the last entry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

_ENTRIES, _STEP, _LOWEST = 512, 1.0 / 16.0, -16.0
_ONE = 1 << 15
_MIDDLE = 0.5

Array = NDArray[np.float64]


@cache
def sigmoid_table() -> NDArray[np.int16]:
    """The 512 entries of the Sigmoid table."""
    return _frozen([math.floor(_ONE / (1.0 + math.exp(-x))) for x in _points(0.0).tolist()])


@cache
def tanh_table() -> NDArray[np.int16]:
    """The 512 entries of the TanH table."""
    return _frozen([math.trunc(_ONE * math.tanh(x)) for x in _points(_MIDDLE).tolist()])


def sigmoid(x: Array) -> Array:
    """By the table; any shape."""
    return np.asarray(np.interp(x, _points(0.0), sigmoid_table() / _ONE))


def tanh(x: Array) -> Array:
    """By the table; any shape."""
    return np.asarray(np.interp(x, _points(_MIDDLE), tanh_table() / _ONE))


TABLES: Mapping[str, Callable[[Array], Array]] = MappingProxyType({"Sigmoid": sigmoid, "TanH": tanh})
"""By the type of layer."""


def _points(offset: float) -> Array:
    """Where the entries stand, `offset` of a step above the step's beginning."""
    return np.asarray(_LOWEST + (np.arange(_ENTRIES) + offset) * _STEP)


def _frozen(entries: list[int]) -> NDArray[np.int16]:
    table = np.asarray(entries, np.int16)
    table.setflags(write=False)
    return table
