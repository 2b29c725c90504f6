"""Words on the scores and descriptors that a network gives: softmax, argmax, topk, l2_normalize.

Values are v = stored - zero, in order; what has rows has one for each position, of `classes` values.

    softmax        E(d) / sum E(d), d = (v - max v) * scale in double, summed in order, rounded to float32
    argmax         the index of the largest value of a row, the first of equals; a NaN is never the largest
    topk           the indices of the k largest values, best first, of equal ones the lower index; NaN go last
    l2_normalize   v / sqrt(sum v * v) in double, summed in order, rounded to float32; zeros where the sum is 0

E(d) = 2^k * P(r), k = trunc(d * log2(e) - 1/2), r = d - k * ln2 (in two parts), P the Taylor polynomial of exp of
degree 13 by Horner's rule; 0 for d at or below -87. `nnkit_scores.c` computes the same numbers to the bit, where the
compiler keeps IEEE doubles and fuses no multiplication with an addition.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.postprocess._checks import require_range
from nnkit.postprocess.numbers import Numbers

MAX_VALUES = 1 << 24
LOG2E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
TERMS = tuple(1.0 / math.factorial(n) for n in range(13, -1, -1))
LEAST = -87.0


@dataclass(frozen=True)
class _Rows:
    """Parameters: `positions` rows of `classes` values. Raises UsageError for a value out of range."""

    positions: int
    classes: int
    numbers: Numbers

    def __post_init__(self) -> None:
        require_range("postprocess.positions", self.positions, 1, MAX_VALUES)
        require_range("postprocess.classes", self.classes, 1, MAX_VALUES)
        require_range("postprocess.values", self.length, 1, MAX_VALUES)

    @property
    def length(self) -> int:
        """Values that are read."""
        return self.positions * self.classes

    def read(self, where: str, stored: NDArray[Any]) -> NDArray[Any]:
        """[positions, classes] without the zero."""
        return self.numbers.centred(where, stored, self.length).reshape(self.positions, self.classes)


@dataclass(frozen=True)
class Softmax(_Rows):
    """Parameters of `softmax`."""


@dataclass(frozen=True)
class ArgMax(_Rows):
    """Parameters of `argmax`."""


@dataclass(frozen=True)
class TopK(_Rows):
    """Parameters of `topk`. k: how many of each row."""

    k: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("topk.k", self.k, 1, self.classes)


@dataclass(frozen=True)
class L2Normalize(_Rows):
    """Parameters of `l2_normalize`: each row is brought to length 1."""


def softmax(stored: NDArray[Any], params: Softmax) -> NDArray[np.float32]:
    """[positions, classes] float32. Raises UsageError for another type or size."""
    values = params.read("softmax", stored)
    with np.errstate(invalid="ignore"):
        scaled = (values - _largest(values)[:, None]).astype(np.float64) * params.numbers.scale
        powers = _exp(scaled)
        return _divided(powers, _sum(powers))


def argmax(stored: NDArray[Any], params: ArgMax) -> NDArray[np.uint32]:
    """[positions]. Raises UsageError for another type or size."""
    indices: NDArray[np.uint32] = np.argmax(_without_nan(params.read("argmax", stored)), axis=1).astype(np.uint32)
    return indices


def topk(stored: NDArray[Any], params: TopK) -> NDArray[np.uint32]:
    """[positions, k]. Raises UsageError for another type or size."""
    order = np.argsort(-_without_nan(params.read("topk", stored)), axis=1, kind="stable")
    return order[:, : params.k].astype(np.uint32)


def l2_normalize(stored: NDArray[Any], params: L2Normalize) -> NDArray[np.float32]:
    """[positions, classes] float32. Raises UsageError for another type or size."""
    values = params.read("l2_normalize", stored).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        return _divided(values, np.sqrt(_sum(values * values)))


def check_rows(where: str, classes: int, length: int) -> int:
    """How many rows of `classes` values an output of `length` values has. Raises UsageError for a part of one."""
    if classes < 1 or length % classes:
        raise UsageError(
            f"the output has {length} values, which are no rows of {classes}",
            where=where,
            remedy="write `classes`: a divisor of the number of values",
        )
    return length // classes


def _without_nan(values: NDArray[Any]) -> NDArray[np.float64]:
    return np.where(np.isnan(values), -np.inf, values).astype(np.float64)


def _largest(values: NDArray[Any]) -> NDArray[Any]:
    largest: NDArray[Any] = values[np.arange(len(values)), np.argmax(_without_nan(values), axis=1)]
    return largest


def _sum(values: NDArray[np.float64]) -> NDArray[np.float64]:
    total = np.zeros(len(values))
    for column in values.T:
        total = total + column
    return total


def _divided(values: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.float32]:
    divisor = by[:, None]
    quotient = np.divide(values, divisor, out=np.zeros_like(values), where=divisor > 0)
    return quotient.astype(np.float32)


def _exp(values: NDArray[np.float64]) -> NDArray[np.float64]:
    above = values > LEAST
    kept = np.where(above, values, 0.0)
    whole = np.trunc(kept * LOG2E - 0.5)
    rest = kept - whole * LN2_HIGH
    rest = rest - whole * LN2_LOW
    power = np.zeros_like(rest)
    for term in TERMS:
        power = power * rest
        power = power + term
    return np.where(above, np.ldexp(power, whole.astype(int)), 0.0)
