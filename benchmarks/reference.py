"""A plain simulator: every op in int64 numpy without a BLAS, straight from the definitions. For comparison only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Concat, Conv2d, Fixed, FusedPool, OutputStage, Pool, Program, Reshape, Window

Integers = NDArray[np.int64]


def reference(program: Program, inputs: Mapping[str, NDArray[Any]]) -> dict[str, Integers]:
    """Every tensor by name. Raises NotImplementedError for what the face networks do not use."""
    values: dict[str, Integers] = {name: np.asarray(value, np.int64) for name, value in inputs.items()}
    for op in program.ops:
        x = [values[name] for name in op.inputs]
        y = program.tensors[op.output]
        if isinstance(op, Conv2d) and op.groups == 1 and op.accumulate == "wide":
            columns = _windows(x[0], op.window, op.pad_value)
            out_h, out_w = columns.shape[1:3]
            matrix = columns.transpose(0, 3, 4, 1, 2).reshape(-1, out_h * out_w)
            weights = op.weight.astype(np.int64).reshape(op.weight.shape[0], -1)
            acc = weights @ matrix + (op.bias.astype(np.int64) << op.bias_shift)[:, None]
            result = _finish(acc.reshape(-1, out_h, out_w), op.stage, y.fixed)
            values[op.output] = result if op.pool is None else _pool(result, op.pool, op.pool.kind, y.fixed)
        elif isinstance(op, Pool) and not op.multipliers_by_count:
            pooled = _pool(x[0], op, op.pool, y.fixed)
            values[op.output] = np.clip(pooled, op.clip_min, op.clip_max)
        elif isinstance(op, Concat):
            parts = [_norm(part, shift) for part, shift in zip(x, op.shifts, strict=True)]
            values[op.output] = np.clip(np.concatenate(parts), y.fixed.qmin, y.fixed.qmax)
        elif isinstance(op, Reshape):
            values[op.output] = x[0].reshape(y.shape)
        else:
            raise NotImplementedError(f"{op.kind} {op.name!r}")
    return values


def _windows(x: Integers, w: Window, fill: int) -> Integers:
    padded = np.pad(x, ((0, 0), (w.pad_top, w.pad_bottom), (w.pad_left, w.pad_right)), constant_values=fill)
    span = ((w.kernel_h - 1) * w.dilation_h + 1, (w.kernel_w - 1) * w.dilation_w + 1)
    views = np.lib.stride_tricks.sliding_window_view(padded, span, axis=(1, 2))
    return views[:, :: w.stride_h, :: w.stride_w, :: w.dilation_h, :: w.dilation_w]


def _norm(values: Integers, shift: int) -> Integers:
    return (values + (1 << (shift - 1))) >> shift if shift else values


def _finish(acc: Integers, stage: OutputStage, storage: Fixed) -> Integers:
    if stage.leaky is not None:
        raise NotImplementedError("leaky")
    values = np.clip(_norm(acc, stage.shift), storage.qmin, storage.qmax)
    return np.clip(values, stage.clip_min, stage.clip_max)


def _pool(x: Integers, pool: Pool | FusedPool, kind: str, storage: Fixed) -> Integers:
    if kind == "max":
        result: Integers = _windows(x, pool.window, -(1 << 62)).max(axis=(3, 4))
        return result
    sums = _windows(x, pool.window, 0).sum(axis=(3, 4))
    return np.clip(_norm(sums * pool.multiplier, pool.shift), storage.qmin, storage.qmax)
