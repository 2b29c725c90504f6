"""What the values of an output that a CPU stage reads stand for: (stored - zero) * scale, or a float itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.program.formats import Affine, Fixed, Float

_LEAST, _MOST = -(1 << 31), (1 << 31) - 1


@dataclass(frozen=True)
class Numbers:
    """bits, signed: of the stored integers; bits 0: float32, of scale 1."""

    bits: int = 0
    signed: bool = True
    scale: float = 1.0
    zero: int = 0

    @classmethod
    def of(cls, where: str, number: Any) -> Numbers:
        """The numbers of a format: 8- or 16-bit integers with one scale, or float32. Raises UsageError for others."""
        if isinstance(number, Float) and number.bits == 32:
            return cls()
        if isinstance(number, Fixed) and number.bits in (8, 16):
            return cls(number.bits, number.signed, 2.0**-number.frac)
        if isinstance(number, Affine) and number.bits in (8, 16) and number.axis is None:
            return cls(number.bits, number.signed, number.scale[0], number.zero_point[0])
        raise UsageError(
            f"{number} is not supported", where=where, remedy="use 8 or 16 bits with one scale for all, or float32"
        )

    @property
    def is_float(self) -> bool:
        """Whether values are float32."""
        return self.bits == 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy storage type."""
        return np.dtype(np.float32 if self.is_float else f"{'i' if self.signed else 'u'}{self.bits // 8}")

    def above(self, real: float) -> int:
        """The largest stored integer that is not above a real number; what is above it stands for more. Exact."""
        return max(_LEAST, min(_MOST, math.floor(Fraction(real) / Fraction(self.scale)) + self.zero))

    def centred(self, where: str, stored: NDArray[Any], length: int) -> NDArray[Any]:
        """[length] values without the zero: int64, or float64. Raises UsageError for another type or size."""
        if stored.size != length or stored.dtype != self.dtype:
            raise UsageError(
                f"the values are {stored.dtype} of shape {list(stored.shape)}",
                where=where,
                remedy=f"pass {length} values of {self.dtype}",
            )
        flat = stored.reshape(-1)
        return flat.astype(np.float64) if self.is_float else flat.astype(np.int64) - self.zero

    def real(self, stored: Any) -> NDArray[np.float64]:
        """Real values, float64."""
        return (np.asarray(stored, np.float64) - self.zero) * self.scale
