"""Descriptor matching: the nearest entry of a gallery by squared L2 distance, with a threshold.

Distances are exact integers, in units of the square of a step. Raw descriptors are compared as they are, as the
published application does. With `normalize` each descriptor is first scaled to unit length with 14 fraction bits:

    shifted = d << s,   s >= 0 least with max|shifted| >= 2**14
    norm    = sqrt(sum shifted**2), rounded to nearest
    unit    = shifted * 2**14 / norm, rounded half away from zero;   an all-zero descriptor stays zero

where d is what is stored less the zero point. Of floats, which are compared with `normalize` alone, unit is
d / sqrt(sum d**2) * 2**14 in double, the sum in order, rounded likewise.

`c/nnkit_match.c` computes the same integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.postprocess._checks import require_range, require_storage
from nnkit.postprocess.numbers import Numbers
from nnkit.program.formats import Affine, Fixed, Float

MAX_LENGTH = 65536  # the sum of as many squares below 2**32 stays within 48 bits
MAX_CAPACITY = 65536
UNIT_FRAC = 14
_MAX_LIMIT = (1 << 64) - 1


@dataclass(frozen=True)
class DescriptorMatch:
    """Parameters, fixed when the code is generated.

    length: values of a descriptor, 1 to 65536.
    format: of a descriptor's values: 8 or 16 bits, -32 to 32 fraction bits; affine with one scale; or float32.
    capacity: entries the gallery can hold, 1 to 65536.
    threshold: largest L2 distance (not squared) that counts as known, in real units: of the descriptor, or of the
        unit-length descriptor with `normalize`.
    normalize: scale descriptors to unit length first.

    Raises UsageError for a value out of range.
    """

    length: int
    format: Fixed | Affine | Float
    capacity: int
    threshold: float
    normalize: bool = False

    def __post_init__(self) -> None:
        require_range("match.length", self.length, 1, MAX_LENGTH)
        if isinstance(self.format, Fixed):
            require_storage("match.format", self.format, -32, 32)
        elif self.numbers.is_float and not self.normalize:
            raise UsageError(
                "floats are compared at unit length alone",
                where="match.normalize",
                remedy="write normalize: true, or give the network integers",
            )
        require_range("match.capacity", self.capacity, 1, MAX_CAPACITY)
        if not (math.isfinite(self.threshold) and self.threshold >= 0):
            raise UsageError(
                f"{self.threshold!r} is not a distance",
                where="match.threshold",
                remedy="give a finite number that is not negative",
            )

    @property
    def numbers(self) -> Numbers:
        """What stored values stand for."""
        return Numbers.of("match.format", self.format)

    @property
    def step(self) -> Fraction:
        """What a difference of 1 of what is compared stands for."""
        return Fraction(1, 1 << UNIT_FRAC) if self.normalize else Fraction(self.numbers.scale)

    @property
    def limit(self) -> int:
        """The largest squared integer distance that counts as known: floor((threshold / step)**2)."""
        scaled = Fraction(self.threshold) / self.step
        return min(math.floor(scaled * scaled), _MAX_LIMIT)


@dataclass(frozen=True)
class Match:
    """The nearest entry, the first of equals; `index` and `squared_distance` are None where the gallery is empty."""

    known: bool
    index: int | None
    squared_distance: int | None


class Gallery:
    """The enrolled descriptors, in order of enrolment."""

    def __init__(self, params: DescriptorMatch) -> None:
        self.params = params
        compared = np.dtype(np.int16) if params.normalize else params.numbers.dtype
        self._entries = np.zeros((params.capacity, params.length), dtype=compared)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def enrol(self, descriptor: NDArray[Any]) -> int | None:
        """Adds descriptor [length] and returns its index, or None where the gallery is full.

        Raises UsageError where the descriptor has another shape or type.
        """
        entry = self._prepared(descriptor)
        if self._count == self.params.capacity:
            return None
        self._entries[self._count] = entry
        self._count += 1
        return self._count - 1

    @property
    def entries(self) -> NDArray[Any]:
        """What is compared: [entries, length], a copy."""
        return self._entries[: self._count].copy()

    def refill(self, entries: NDArray[Any]) -> None:
        """Replaces all entries by [entries, length] of what is compared, at most `capacity` of them."""
        self._count = len(entries)
        self._entries[: self._count] = entries

    def match(self, descriptor: NDArray[Any]) -> Match:
        """Finds the entry nearest to descriptor [length].

        Raises UsageError where the descriptor has another shape or type.
        """
        query = self._prepared(descriptor).astype(np.int64)
        if self._count == 0:
            return Match(known=False, index=None, squared_distance=None)
        difference = self._entries[: self._count].astype(np.int64) - query
        squared = np.einsum("ij,ij->i", difference, difference)  # [count] int64, below 2**48
        index = int(np.argmin(squared))
        distance = int(squared[index])
        return Match(known=distance <= self.params.limit, index=index, squared_distance=distance)

    def _prepared(self, descriptor: NDArray[Any]) -> NDArray[Any]:
        if descriptor.shape != (self.params.length,) or descriptor.dtype != self.params.numbers.dtype:
            raise UsageError(
                f"the descriptor is {descriptor.dtype} of shape {list(descriptor.shape)}",
                where="match",
                remedy=f"pass {self.params.numbers.dtype} of shape [{self.params.length}]",
            )
        if not self.params.normalize:
            return descriptor
        numbers = self.params.numbers
        return _unit_of_floats(descriptor) if numbers.is_float else unit_length(descriptor, numbers.zero)


def unit_length(descriptor: NDArray[Any], zero: int = 0) -> NDArray[np.int16]:
    """Scales [length] of 8 or 16 bits to unit length, 14 fraction bits, by the formula of the module."""
    values = descriptor.astype(np.int64) - zero
    largest = int(np.abs(values).max())
    if largest == 0:
        return np.zeros(descriptor.shape, dtype=np.int16)
    shift = max(0, 15 - largest.bit_length())
    magnitudes = np.abs(values) << shift
    total = int(np.sum(magnitudes * magnitudes))
    root = math.isqrt(total)
    norm = root + 1 if total - root * root > root else root
    scaled = ((magnitudes << UNIT_FRAC) + norm // 2) // norm
    unit: NDArray[np.int16] = (np.sign(values) * scaled).astype(np.int16)
    return unit


def _unit_of_floats(descriptor: NDArray[np.float32]) -> NDArray[np.int16]:
    values = descriptor.astype(np.float64)
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for square in (values * values).tolist():
            total += square
    if not 0 < total < math.inf:
        return np.zeros(descriptor.shape, dtype=np.int16)
    scaled = np.floor(np.abs(values) / math.sqrt(total) * (1 << UNIT_FRAC) + 0.5)
    return (np.sign(values) * scaled).astype(np.int16)
