"""GFPQ: the logarithmic number format of the NNIE.

A tensor has one scale `z`; a value is a sign and a logarithm: +-2^((k + z) / F). With 8 bits ("1.3.4": sign, 3 bits
of octave, 4 bits of fraction) F is 16 and k at most 127; in the 16-bit mode ("1.5.7", 13 bits) F is 128 and k at most
1407 (eleven octaves less one code). Rounding is on the logarithm, so that the relative error is even over the range.

Source: the format's public description; checked value by value against the vendor's public quantisation library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

GfpqBits: TypeAlias = Literal[8, 16]

SMALLEST_MAGNITUDE = 1e-6
"""The mapper takes data that holds only zeros as if its largest magnitude were this."""


@dataclass(frozen=True)
class _Layout:
    steps_per_octave: int
    largest_code: int
    sign_bit: int
    bytes: int


_LAYOUTS = MappingProxyType({8: _Layout(16, 127, 1 << 7, 1), 16: _Layout(128, 1407, 1 << 12, 2)})


@dataclass(frozen=True)
class Gfpq:
    """A tensor's format: `bits` is 8 or 16, `z` the scale (`Gfpq.for_magnitude` gives the one for a range).

    A stored value is sign * 2^bit + k. A negative value has k >= 1, which leaves the code "sign set, k = 0" to zero;
    a positive one may have k = 0.
    """

    bits: GfpqBits
    z: int

    @classmethod
    def for_magnitude(cls, bits: GfpqBits, largest: float) -> Gfpq:
        """The format for values of at most this magnitude: z = floor(F log2(largest)) - K.

        A range of zero (or below what the mapper tells from zero) counts as `SMALLEST_MAGNITUDE`. Raises ValueError
        where `largest` is negative or not finite.
        """
        if not math.isfinite(largest) or largest < 0.0:
            raise ValueError(f"{largest} is not a magnitude")
        layout = _LAYOUTS[bits]
        magnitude = max(largest, SMALLEST_MAGNITUDE)
        return cls(bits, math.floor(layout.steps_per_octave * math.log2(magnitude)) - layout.largest_code)

    @property
    def steps_per_octave(self) -> int:
        """F: codes between a value and its double."""
        return _LAYOUTS[self.bits].steps_per_octave

    @property
    def largest_code(self) -> int:
        """K: the largest k."""
        return _LAYOUTS[self.bits].largest_code

    @property
    def zero(self) -> int:
        """The stored value that means zero."""
        return _LAYOUTS[self.bits].sign_bit

    @property
    def bytes(self) -> int:
        """Storage of one element in bytes."""
        return _LAYOUTS[self.bits].bytes

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy storage type."""
        return np.dtype(f"u{self.bytes}")

    @property
    def largest(self) -> float:
        """The largest magnitude that the format holds."""
        return float(2.0 ** ((self.largest_code + self.z) / self.steps_per_octave))

    def quantize(self, values: NDArray[Any]) -> NDArray[Any]:
        """Real values -> stored ones, any shape.

        k = rint(F log2|x| - z), clipped to 0..K (1..K for negative values). What lies below half the smallest
        magnitude of its sign, 2^((z - F) / F) and 2^((z + 1 - F) / F), becomes zero. NaN becomes zero.
        """
        x = np.asarray(values, dtype=np.float64)
        steps, top = self.steps_per_octave, self.largest_code
        positive = x >= 2.0 ** ((self.z - steps) / steps)
        negative = x < -(2.0 ** ((self.z + 1 - steps) / steps))
        with np.errstate(divide="ignore", invalid="ignore"):
            logarithm = np.asarray(np.abs(x))  # one array, changed in place: feature maps are large
            np.log2(logarithm, out=logarithm)
            logarithm *= steps
            logarithm -= self.z
            np.rint(logarithm, out=logarithm)
            np.clip(logarithm, 0.0, top, out=logarithm)
            codes = logarithm.astype(np.int32)
        stored = np.where(positive, codes, self.zero)
        if negative.any():
            stored = np.where(negative, self.zero + np.maximum(codes, 1), stored)
        return stored.astype(self.dtype)

    def dequantize(self, stored: NDArray[Any]) -> NDArray[np.float64]:
        """Stored values -> real ones. Raises ValueError for a code that the format does not have."""
        codes = np.asarray(stored)
        if codes.size and not self._has(codes):
            raise ValueError(f"a value is no code of {self}")
        return np.asarray(_table(self.bits, self.z)[codes])

    def in_units(self, stored: NDArray[Any]) -> NDArray[np.float64]:
        """Stored values as multiples of the unit 2^(z / F): +-2^(k / F)."""
        return np.asarray(_table(self.bits, 0)[stored])

    def through(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """What real values become when they are stored and read back."""
        return np.asarray(_table(self.bits, self.z)[self.quantize(values)])

    def _has(self, codes: NDArray[Any]) -> bool:
        magnitudes = codes.astype(np.int64) & (self.zero - 1)
        return bool(int(codes.max()) < 2 * self.zero and int(codes.min()) >= 0) and bool(
            int(magnitudes.max()) <= self.largest_code
        )

    def __str__(self) -> str:
        return f"gfpq{self.bits} z {self.z}"


@lru_cache(maxsize=64)
def _table(bits: GfpqBits, z: int) -> NDArray[np.float64]:
    """Real value of every code, read-only; codes beyond K repeat the largest."""
    layout = _LAYOUTS[bits]
    codes = (min(k, layout.largest_code) for k in range(layout.sign_bit))
    # Python's power, because numpy's last bit depends on the processor.
    magnitudes = np.asarray([2.0 ** ((k + z) / layout.steps_per_octave) for k in codes], np.float64)
    table = np.concatenate([magnitudes, -magnitudes])
    table[layout.sign_bit] = 0.0
    table.setflags(write=False)
    return table
