"""What works on rows of computed values: matrix products and normalisation."""

from __future__ import annotations

from math import prod

import numpy as np

from nnkit.c.affine.call import Call, Kernel, Table, suffix
from nnkit.c.affine.requantize import stage_of
from nnkit.program.affine import AffineMatMul, AffineNormalizeRows, AffineTensor

_LIMIT = 1 << 31


def steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Elements from one index to the next along each axis, as the tensor lies in memory: [C, H, W] as [H, W, C]."""
    if len(shape) == 3:
        return 1, shape[2] * shape[0], shape[0]
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _matrices(name: str, shape: tuple[int, ...]) -> dict[str, int]:
    """Elements from matrix to matrix, row to row and column to column."""
    *outer, row, column = steps(shape)
    return {f"{name}_matrix": outer[-1] if outer else 0, f"{name}_row": row, f"{name}_column": column}


def matmul_call(op: AffineMatMul, sources: list[AffineTensor], output: AffineTensor) -> Call:
    """The one call.

    Sums are of (a - zero) * b, from which the zero point of b times the sum of (a - zero) is taken at the end; where
    they might leave 32 bits they have 64.
    """
    a, b = sources
    depth = a.shape[-1]
    largest = max(abs(b.format.qmin), abs(b.format.qmax)) + abs(b.zero_point)
    wide = op.accumulator == "int64" or depth * a.reach * largest >= _LIMIT
    stage = stage_of(op.requantize, output, 1, depth * a.reach * b.reach, wide=wide)
    variant = (
        ("a", suffix(a)),
        ("b", suffix(b)),
        ("y", suffix(output)),
        ("sum", "s64" if wide else ""),
        *stage.variant,
    )
    return Call(
        Kernel("rows", "matmul", variant),
        {
            "matrices": prod(output.shape[:-2]),
            "rows": output.shape[-2],
            "columns": output.shape[-1],
            "depth": depth,
            **_matrices("a", a.shape),
            **_matrices("b", b.shape),
            **_matrices("y", output.shape),
            "a_zero": a.zero_point,
            "b_zero": b.zero_point,
            "multiplier": int(stage.multiplier[0]),
            "shift": int(stage.shift[0]),
            **stage.numbers,
        },
        op.inputs,
        op.output,
    )


def normalize_call(op: AffineNormalizeRows, source: AffineTensor, output: AffineTensor) -> Call:
    """The one call. A row is read whole before any of it is written, and rows share no element."""
    size, (outer, inner) = source.shape[-1], rows_around(source.shape, len(source.shape) - 1)
    high, low = op.offset.astype(np.int64) >> 32, op.offset.astype(np.int64) & 0xFFFFFFFF
    return Call(
        Kernel("rows", "normalize", (("x", suffix(source)), ("y", suffix(output)))),
        {
            "outer": outer,
            "inner": inner,
            "length": size,
            "epsilon_high": op.epsilon >> 32,
            "epsilon_low": _signed(op.epsilon & 0xFFFFFFFF),
            "shift": op.shift,
            "zero": output.zero_point,
            "low": output.format.qmin,
            "high": output.format.qmax,
        },
        op.inputs,
        op.output,
        {"rows": Table("ints", np.stack([op.gain.astype(np.int64), high, low], axis=1))},
        in_place=frozenset({0} if source.size_bytes == output.size_bytes else ()),
    )


def rows_around(shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    """(outer, inner): how many elements lie around an axis in memory, in front of it and behind it."""
    stored = (shape[1], shape[2], shape[0]) if len(shape) == 3 else shape
    place = (axis - 1) % 3 if len(shape) == 3 else axis
    return prod(stored[:place]), prod(stored[place + 1 :])


def _signed(word: int) -> int:
    return word - (1 << 32) if word >= 1 << 31 else word
