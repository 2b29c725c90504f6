"""The integer parameters of the TPU's ops, as the compiler's lowered MLIR states them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rounding: TypeAlias = Literal["half_away", "half_up", "half_even", "down", "two_steps"]


@dataclass(frozen=True, eq=False)
class Requant:
    """multiplier, shift: [1] or [C] integers; acc * multiplier, then a right shift by `shift` with `rounding`.

    `two_steps`: 31 of the bits are shifted out first, half up, then the others, half away from zero.
    """

    multiplier: NDArray[np.int64]
    shift: NDArray[np.int64]
    rounding: Rounding = "half_away"


@dataclass(frozen=True, eq=False)
class IntegerWeights:
    """An op with weights in 8 bits: bias int32 (None: none) in units of input scale * weight scale.

    weight: -128..127, or 0..255 where no weight is negative and there is no bias.
    """

    weight: NDArray[np.int16]
    bias: NDArray[np.int32] | None
    requant: Requant


@dataclass(frozen=True, eq=False)
class IntegerOperands:
    """An op on several INT8 operands: a multiplier and a right shift for each.

    joint: the products are combined first and shifted once, by the first shift.
    """

    multipliers: tuple[int, ...]
    shifts: tuple[int, ...]
    rounding: Rounding = "half_away"
    joint: bool = False


@dataclass(frozen=True, eq=False)
class IntegerTable:
    """An INT8 activation as the compiler does it: 256 results, by the stored byte read as unsigned."""

    table: NDArray[np.int64]


@dataclass(frozen=True)
class ScaledSum:
    """An average in a network with zero points: the sum of stored values times `scale`, plus `offset`, in float32."""

    scale: float
    offset: float
