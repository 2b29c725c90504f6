"""Functions in BF16 as the cv18xx look them up: 256 values at equal distances, and the slopes between them.

Places are cut off towards zero; a slope leads away from zero. Beyond the ends a slope holds on that the compiler
draws to three times the end. All products and sums are rounded to BF16.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit_tpu.casts import rounded

Values = NDArray[np.float64]
_ENTRIES = 256


def in_bf16(values: Values) -> Values:
    """Rounded to BF16, half to even."""
    return rounded(np.asarray(values), "BF16").astype(np.float64)


@dataclass(frozen=True, eq=False)
class FunctionTable:
    """A function between -end and end. values, slopes: by the place's last 8 bits."""

    end: float
    values: Values
    slopes: Values

    @classmethod
    def of(cls, function: Callable[[Values], Values], end: float) -> FunctionTable:
        """The table of a function."""
        places = np.arange(-_ENTRIES // 2, _ENTRIES // 2)
        values = in_bf16(function(np.asarray(places * (2.0 * end / _ENTRIES), np.float64)))
        slopes = np.where(places < 0, values - np.roll(values, 1), np.roll(values, -1) - values)
        ends = np.array([-end, end])
        slopes[[0, -1]] = (function(3.0 * ends) - function(ends)) / (ends * _ENTRIES / end)
        by_bits = np.argsort(places & (_ENTRIES - 1))
        return cls(end, values[by_bits], in_bf16(slopes)[by_bits])

    def at(self, x: Values) -> Values:
        """The function of values in BF16."""
        scaled = in_bf16(x * in_bf16(np.array(_ENTRIES / (2.0 * self.end))))
        place = np.clip(np.trunc(scaled), -_ENTRIES // 2, _ENTRIES // 2 - 1)
        index = place.astype(np.int64) & (_ENTRIES - 1)
        return in_bf16(self.values[index] + in_bf16(scaled - place) * self.slopes[index])


def logistic(x: Values) -> Values:
    """1 / (1 + exp(-x))."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * x))


def _as_tabulated(x: Values) -> Values:
    """The logistic function with a denominator in float32, as the compiler computes it for its tables."""
    return np.asarray(1.0 / (1.0 + np.exp(-x)).astype(np.float32).astype(np.float64))


SIGMOID = FunctionTable.of(_as_tabulated, 12.0)
TANH = FunctionTable.of(np.tanh, 15.0)
