"""Real gains and offsets of a normalisation as integers, for both arithmetics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.program.row_arithmetic import FIXED_PARTS, FRACTION_BITS
from nnkit.program.tensor import IntArray

_GAIN_BITS = 15


@dataclass(frozen=True, eq=False)
class RowConstants:
    """As `nnkit.program.fixed.normalize_rows` has them."""

    epsilon: int
    gain: IntArray
    offset: IntArray
    shift: int

    @staticmethod
    def of(
        gain: NDArray[np.float64],
        offset: NDArray[np.float64],
        epsilon: float,
        scale: float,
        output_scale: float,
        parts: int = FIXED_PARTS,
    ) -> RowConstants:
        """scale, output_scale: of the input's and the output's integers. The largest gain has 15 bits.

        parts: in how many parts of the input's unit means are kept.
        """
        units = gain / output_scale
        most = float(np.abs(units).max(initial=0.0)) or 1.0
        bits = _GAIN_BITS - 1 - int(np.floor(np.log2(most)))
        bits = min(max(bits, 1 - FRACTION_BITS), 62 - FRACTION_BITS - 32)
        shift = FRACTION_BITS + bits
        return RowConstants(
            epsilon=min(round(epsilon * (parts / scale) ** 2), 1 << 60),
            gain=np.rint(units * 2.0**bits).astype(np.int64),
            offset=np.rint(offset / output_scale * 2.0**shift).astype(np.int64),
            shift=shift,
        )
