"""The end of every fixed-point op: NORM, saturation to the storage, a leaky slope, the clip.

All arrays are int64, which holds every intermediate value exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.program.formats import Fixed
from nnkit.program.op import OpBase
from nnkit.program.tensor import IntArray
from nnkit.program.watch import Watch

_ACCUMULATOR_BITS = {"int32": 32, "running16": 32, "int64": 64}
_NO_LIMIT = -(1 << 62)


@dataclass(frozen=True, eq=False)
class Leaky:
    """Negative-side slopes: v < 0 -> NORM(v * slope, shift). `slopes` is int16 [1] or [C]."""

    slopes: NDArray[np.int16]
    shift: int


@dataclass(frozen=True, eq=False)
class OutputStage:
    """What happens to an accumulator before it is stored; see `nnkit.program.fixed`."""

    shift: int
    clip_min: int
    clip_max: int
    leaky: Leaky | None = None

    def stored(self, acc: IntArray, op: OpBase, storage: Fixed, watch: Watch | None) -> IntArray:
        """Accumulators [C, ...] of `op` -> stored integers; `watch` is told of both widths."""
        bits = _ACCUMULATOR_BITS[op.accumulator]
        rounded = acc + (1 << (self.shift - 1)) if self.shift else acc
        if watch is not None:
            watch.accumulator(op.name, rounded, bits)
        values = wrap(rounded, bits) >> self.shift
        if watch is not None:
            # Below an unsigned format lies what a ReLU cuts off on purpose: that is no saturation.
            watch.saturation(op.name, values, storage.qmin if storage.signed else _NO_LIMIT, storage.qmax)
        return self.activated(np.clip(values, storage.qmin, storage.qmax), storage)

    def activated(self, values: IntArray, storage: Fixed) -> IntArray:
        """What follows NORM and saturation: leaky slope, then the clip."""
        if self.leaky is not None:
            slopes = self.leaky.slopes.astype(np.int64)
            slopes = slopes.reshape((-1,) + (1,) * (values.ndim - 1))
            negative = np.clip(norm(values * slopes, self.leaky.shift), storage.qmin, storage.qmax)
            values = np.where(values < 0, negative, values)
        return np.asarray(np.clip(values, self.clip_min, self.clip_max))


def norm(values: IntArray, shift: int) -> IntArray:
    """(x + 2^(shift-1)) >> shift, half toward +infinity; x itself for shift 0."""
    return values if shift == 0 else np.asarray((values + (1 << (shift - 1))) >> shift)


def wrap(values: IntArray, bits: int) -> IntArray:
    """Values modulo 2^bits in two's complement (identity for 64 bits: int64 is exact by the caller's bound)."""
    if bits >= 64:
        return values
    half = 1 << (bits - 1)
    return np.asarray(((values + half) & ((1 << bits) - 1)) - half)
