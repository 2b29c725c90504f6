"""Random numbers as float32, without all of them as float64 first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 20  # numbers


def drawn_float32(draw: Callable[[int], NDArray[Any]], shape: Sequence[int]) -> NDArray[np.float32]:
    """An array of a shape, drawn in blocks: at once, the numbers would take three times the memory for a moment.

    draw: gives so many numbers; numpy's generators give the same ones in blocks as at once.
    """
    values = np.empty(prod(shape), np.float32)
    for start in range(0, values.size, _BLOCK):
        part = values[start : start + _BLOCK]
        part[:] = draw(part.size)
    return values.reshape(shape)
