"""Number formats of tensors: what a stored value means.

`Fixed` is two's-complement (or unsigned) power-of-two fixed point as in the published GAP8 flow:
value = q * 2**-frac. `Float` marks tensors of float segments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Fixed:
    """Power-of-two fixed point: `bits` stored bits of which `frac` are fraction bits (may be negative).

    Source: the published GAP8 quantiser: q = clamp(floor(x * 2^frac + 0.5)).
    """

    bits: int
    frac: int
    signed: bool = True

    @property
    def qmin(self) -> int:
        """Smallest stored integer."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def qmax(self) -> int:
        """Largest stored integer."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    @property
    def bytes(self) -> int:
        """Storage of one element in bytes."""
        return self.bits // 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy storage type."""
        return np.dtype(f"{'i' if self.signed else 'u'}{self.bytes}")

    def quantize(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Real values -> integers, half up, saturated to the format. Any shape; float64 inside."""
        q = np.floor(np.asarray(values, dtype=np.float64) * 2.0**self.frac + 0.5)
        return np.clip(q, self.qmin, self.qmax).astype(np.int64)

    def quantize_scalar(self, value: float) -> int:
        """`quantize` of one number."""
        return int(self.quantize(np.asarray(value)))

    def dequantize(self, stored: NDArray[Any]) -> NDArray[np.float64]:
        """Integers -> real values (exact in float64)."""
        return np.asarray(stored, dtype=np.float64) * 2.0**-self.frac

    def __str__(self) -> str:
        return f"{'s' if self.signed else 'u'}{self.bits}.{self.frac}"


@dataclass(frozen=True)
class Float:
    """IEEE binary32, for segments that run in float on a CPU."""

    bits: int = 32

    @property
    def bytes(self) -> int:
        """Storage of one element in bytes."""
        return self.bits // 8

    def __str__(self) -> str:
        return f"f{self.bits}"


Format: TypeAlias = Fixed | Float
