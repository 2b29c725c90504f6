"""How far a layer may be off because of what it reads, where the artifact holds no values of that.

A layer without values is computed, and may be off by its own bound. What reads it is computed again with what it
reads moved up, and down, by that: all that can come of it where the layer only moves, joins or rescales values, or
applies a monotone function to each; of others an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import OpBase, Program
from nnkit.simulate import simulate_op
from nnkit.verify.drift import Bound


def carried(
    program: Program,
    op: OpBase,
    inputs: Sequence[NDArray[Any]],
    result: NDArray[Any],
    bounds: Mapping[str, Bound],
) -> NDArray[np.float64]:
    """By how many stored units the op's result may be off for what it reads.

    inputs: stored values of `op.inputs`, in their tensors' shapes, of which the op gives `result`. bounds: by tensor,
    those of values that the artifact does not hold.
    """
    middle, total = result.astype(np.float64), np.zeros(result.shape)
    for index, name in enumerate(op.inputs):
        by = np.asarray(bounds.get(name, 0.0), np.float64)
        if not by.any():
            continue
        off = np.zeros(result.shape)
        for signed in (by, -by):
            read = [*inputs[:index], _moved(inputs[index], signed), *inputs[index + 1 :]]
            off = np.maximum(off, np.abs(simulate_op(program, op, read).astype(np.float64) - middle))
        total += off
    return total


def _moved(values: NDArray[Any], by: NDArray[np.float64]) -> NDArray[Any]:
    """Stored values moved by so many units, within what their type holds."""
    moved = values.astype(np.float64) + by.reshape(values.shape if by.ndim else ())
    if values.dtype.kind in "iu":
        limits = np.iinfo(values.dtype)
        moved = np.clip(moved, limits.min, limits.max)
    return moved.astype(values.dtype)
