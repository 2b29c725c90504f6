"""The fixed point of boxes, which `ssd`, `nms` and `yolo` share: coordinates, constants, 2^x, overlaps.

Coordinates are fractions of the image with 14 fraction bits (16384 is the right or lower edge). What is read,
v = stored - zero, is multiplied by a constant m:

    scaled(v) = (v * high + ((v * low + 2^13) >> 14) + 2^(s-1)) >> s,    m = (high * 2^14 + low) * 2^-(14+s)

with high and low below 2^14; a float is rounded half up instead, floor(v * m + 1/2). 2^(f / 2^13) has 14 fraction
bits and is linear between 64 points. Two boxes overlap by more than t, 14 fraction bits, where
common * (2^14 + t) > (area + area) * t. `nnkit_boxes.h` computes the same integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BOX_FRAC, SHIFT_FRAC, EXP_POINTS = 14, 13, 64
ONE = 1 << BOX_FRAC
BOX_LEAST, BOX_MOST = -ONE, 2 * ONE - 1
SHIFT_MOST, EXP_LEAST, EXP_MOST = 65535, -15 << SHIFT_FRAC, (6 << SHIFT_FRAC) - 1

EXP2 = tuple(round(2.0 ** (i / EXP_POINTS) * (1 << BOX_FRAC)) for i in range(EXP_POINTS + 1))
"""2^(i / 64) with 14 fraction bits."""


@dataclass(frozen=True)
class Factor:
    """A constant that stored values are multiplied by, as the C has it; real: for floats."""

    high: int
    low: int
    shift: int
    real: float

    @classmethod
    def of(cls, real: float) -> Factor:
        """The factor of a number above 0."""
        mantissa, exponent = math.frexp(real)  # real = mantissa * 2^exponent, mantissa in [0.5, 1)
        whole = min(round(mantissa * (1 << 28)), (1 << 28) - 1)
        shift = 14 - exponent
        return cls(0, 0, 1, real) if shift > 30 else cls(whole >> 14, whole & 16383, shift, real)


@dataclass(frozen=True)
class Detected:
    """label: class. score: as the stage stores it. box: x_min, y_min, x_max, y_max with 14 fraction bits."""

    label: int
    score: int | float
    box: tuple[int, int, int, int]

    @property
    def corners(self) -> tuple[float, float, float, float]:
        """The box as fractions of the image."""
        x_min, y_min, x_max, y_max = (each / ONE for each in self.box)
        return x_min, y_min, x_max, y_max


def scaled(values: NDArray[Any], factor: Factor, low: int, high: int) -> NDArray[np.int64]:
    """Values without their zero, multiplied and kept within two limits."""
    if values.dtype == np.float64:
        with np.errstate(invalid="ignore", over="ignore"):
            rounded = np.floor(values * factor.real + 0.5)
        kept: NDArray[np.int64] = np.where(rounded > low, np.minimum(rounded, high), low).astype(np.int64)  # NaN: low
        return kept
    product = values * factor.high + ((values * factor.low + (1 << 13)) >> 14)
    whole: NDArray[np.int64] = np.clip((product + (1 << (factor.shift - 1))) >> factor.shift, low, high)
    return whole


def power_of_two(exponents: NDArray[np.int64]) -> NDArray[np.int64]:
    """2 to the fraction of exponents of 13 fraction bits, with 14 of them: 16384 to 32767."""
    fraction = exponents & ((1 << SHIFT_FRAC) - 1)
    points = np.array(EXP2, np.int64)
    index, rest = fraction >> 7, fraction & 127
    power: NDArray[np.int64] = points[index] + (((points[index + 1] - points[index]) * rest + 64) >> 7)
    return power


def half_sides(exponents: NDArray[np.int64], sides: NDArray[np.int64]) -> NDArray[np.int64]:
    """sides * 2^exponents / 2; exponents have 13 fraction bits, within EXP_LEAST and EXP_MOST."""
    whole = exponents >> SHIFT_FRAC
    halves: NDArray[np.int64] = (power_of_two(exponents) * sides + (1 << (14 - whole))) >> (15 - whole)
    return halves


def overlap(box: NDArray[np.int64], others: NDArray[np.int64], threshold: int) -> NDArray[np.bool_]:
    """Whether a box overlaps each of others, [n, 4], by more than a threshold of 14 fraction bits."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    inside = (sides > 0).all(axis=1)
    common = sides[:, 0] * sides[:, 1]
    areas = _area(others) + _area(box[None])
    exceeds: NDArray[np.bool_] = inside & (common * (ONE + threshold) > areas * threshold)
    return exceeds


def _area(boxes: NDArray[np.int64]) -> NDArray[np.int64]:
    sides = boxes[:, 2:] - boxes[:, :2]
    areas: NDArray[np.int64] = np.where((sides < 0).any(axis=1), 0, sides[:, 0] * sides[:, 1])
    return areas
