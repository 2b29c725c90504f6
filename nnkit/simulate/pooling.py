"""Max and average pooling, alone and fused behind a convolution."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Fixed, FusedPool, Pool, Tensor, Window
from nnkit.simulate.arithmetic import IntArray, norm
from nnkit.simulate.windows import padded, taps

_ABSENT = -(1 << 62)  # below every stored integer, so that padding never wins a maximum


def _max_pool(x: IntArray, window: Window) -> IntArray:
    result: IntArray = taps(padded(x, window, _ABSENT), window).max(axis=(3, 4))
    return result


def _sums(x: IntArray, window: Window) -> IntArray:
    result: IntArray = taps(padded(x, window, 0), window).sum(axis=(3, 4))
    return result


def present_taps(shape: tuple[int, ...], window: Window) -> IntArray:
    """How many taps of each window lie inside the input: [OH, OW]."""
    ones = np.ones((1, *shape[-2:]), dtype=np.int64)
    counts: IntArray = _sums(ones, window)[0]
    return counts


def pool(op: Pool, x: NDArray[Any], output: Tensor) -> IntArray:
    """Run a Pool on [C, H, W] integers; returns the stored [C, OH, OW] as int64."""
    data = x.astype(np.int64)
    storage = output.fixed
    if op.pool == "max":
        values = _max_pool(data, op.window)
    else:
        multiplier: IntArray | int = op.multiplier
        if op.multipliers_by_count:
            multiplier = np.asarray(op.multipliers_by_count, dtype=np.int64)[present_taps(data.shape, op.window)]
        values = norm(_sums(data, op.window) * multiplier, op.shift)
    result: IntArray = np.clip(np.clip(values, storage.qmin, storage.qmax), op.clip_min, op.clip_max)
    return result


def fused_pool(pool_: FusedPool, values: IntArray, storage: Fixed) -> IntArray:
    """The pool behind a convolution, on its [O, H, W] values after the output stage."""
    if pool_.kind == "max":
        return _max_pool(values, pool_.window)
    sums = norm(_sums(values, pool_.window) * pool_.multiplier, pool_.shift)
    result: IntArray = np.clip(sums, storage.qmin, storage.qmax)
    return result
