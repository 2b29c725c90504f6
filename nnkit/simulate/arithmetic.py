"""The integer primitives that all ops share: NORM, wrapping accumulators, the output stage.

Definitions are in `nnkit.program.ops`. All arrays are int64, which holds every intermediate value exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Fixed, OutputStage
from nnkit.simulate.watch import Watch

IntArray = NDArray[np.int64]

ACCUMULATOR_BITS = {"int32": 32, "running16": 32, "int64": 64}


def norm(values: IntArray, shift: int) -> IntArray:
    """(x + 2^(shift-1)) >> shift, half toward +infinity; x itself for shift 0."""
    if shift == 0:
        return values
    result: IntArray = (values + (1 << (shift - 1))) >> shift
    return result


def wrap(values: IntArray, bits: int) -> IntArray:
    """Values modulo 2^bits in two's complement (identity for 64 bits: int64 is exact by the caller's bound)."""
    if bits >= 64:
        return values
    half = 1 << (bits - 1)
    result: IntArray = ((values + half) & ((1 << bits) - 1)) - half
    return result


def per_channel(values: NDArray[Any], ndim: int) -> NDArray[Any]:
    """[1] or [C] -> broadcastable against [C, H, W] or [F]."""
    return values.reshape((-1,) + (1,) * (ndim - 1)) if ndim > 1 else values


def activate(values: IntArray, stage: OutputStage, storage: Fixed) -> IntArray:
    """The part of the output stage after NORM and saturation: leaky slope, then the clip."""
    if stage.leaky is not None:
        slopes = per_channel(stage.leaky.slopes.astype(np.int64), values.ndim)
        negative = np.clip(norm(values * slopes, stage.leaky.shift), storage.qmin, storage.qmax)
        values = np.where(values < 0, negative, values)
    result: IntArray = np.clip(values, stage.clip_min, stage.clip_max)
    return result


def output_stage(
    acc: IntArray, stage: OutputStage, storage: Fixed, accumulator: str, op: str, watch: Watch | None
) -> IntArray:
    """Accumulator -> stored integers, as `nnkit.program.ops` defines; observes when `watch` is given."""
    bits = ACCUMULATOR_BITS[accumulator]
    rounded = acc + (1 << (stage.shift - 1)) if stage.shift else acc
    if watch is not None:
        watch.accumulator(op, rounded, bits)
    values = wrap(rounded, bits) >> stage.shift
    if watch is not None:
        # Below an unsigned format lies what a ReLU cuts off on purpose: that is no saturation.
        watch.saturation(op, values, storage.qmin if storage.signed else -(1 << 62), storage.qmax)
    return activate(np.clip(values, storage.qmin, storage.qmax), stage, storage)
