"""Ops without weights that keep, join or move values: add, mul, activation, concat, upsample, pad, reshape."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Activation, Add, Concat, Mul, Pad, Tensor, Upsample
from nnkit.simulate.arithmetic import IntArray, norm, output_stage
from nnkit.simulate.watch import Watch


def add(op: Add, a: NDArray[Any], b: NDArray[Any], output: Tensor, watch: Watch | None) -> IntArray:
    """(a << s0) + (b << s1), output stage."""
    acc = (a.astype(np.int64) << op.shifts[0]) + (b.astype(np.int64) << op.shifts[1])
    return output_stage(acc, op.stage, output.fixed, op.accumulator, op.name, watch)


def mul(op: Mul, a: NDArray[Any], b: NDArray[Any], output: Tensor, watch: Watch | None) -> IntArray:
    """a * b (b may be [C, 1, 1]), output stage."""
    return output_stage(
        a.astype(np.int64) * b.astype(np.int64), op.stage, output.fixed, op.accumulator, op.name, watch
    )


def activation(op: Activation, x: NDArray[Any], output: Tensor, watch: Watch | None) -> IntArray:
    """The output stage alone."""
    return output_stage(x.astype(np.int64), op.stage, output.fixed, op.accumulator, op.name, watch)


def concat(op: Concat, parts: list[NDArray[Any]], output: Tensor) -> IntArray:
    """Parts brought to the output's format and joined along axis 0 (channels)."""
    storage = output.fixed
    joined = [
        np.clip(norm(part.astype(np.int64), shift), storage.qmin, storage.qmax)
        for part, shift in zip(parts, op.shifts, strict=True)
    ]
    return np.concatenate(joined)


def upsample(op: Upsample, x: NDArray[Any]) -> IntArray:
    """Nearest neighbour by whole factors."""
    return np.repeat(np.repeat(x.astype(np.int64), op.scale_h, axis=1), op.scale_w, axis=2)


def pad(op: Pad, x: NDArray[Any]) -> IntArray:
    """Constant border of H and W."""
    pads = ((0, 0), (op.top, op.bottom), (op.left, op.right))
    return np.pad(x.astype(np.int64), pads, constant_values=op.value)
