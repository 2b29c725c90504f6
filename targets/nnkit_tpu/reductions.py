"""Reductions over axes on the cv18xx: which the compiler computes in integers, which in several steps, which not.

Over axes that are not neighbours the chip model gives other means and sums than the compiler's own inference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnkit.memory.packing import align_up
from nnkit_tpu.chips import chip_named
from nnkit_tpu.program import TpuLayerNorm, TpuReduce

_LONGEST = 4063  # pixels along a side of an image, as the compiler has it
_TABLE_BYTES = 512  # of one of the two tables for a root, in BF16, in each lane


def reduced_in_integers(op: TpuReduce, shape: Sequence[int], chip: str) -> bool:
    """Whether the op on a value of that shape has an INT8 form.

    The compiler computes it in BF16 where several axes, with none behind them, do not fit half of a lane.
    """
    where = chip_named(chip)
    first, last = op.axes[0], op.axes[-1]
    if not where.is_cv or op.function == "l2":
        return False
    beyond = int(np.prod(shape[last + 1 :]))
    size_bytes = align_up(int(np.prod(shape[first : last + 1])), where.eu_bytes)
    return len(op.axes) == 1 or beyond > 1 or size_bytes < where.lane_bytes // 2 - where.eu_bytes


def over_neighbours(op: TpuReduce, shape: tuple[int, ...]) -> list[tuple[TpuReduce, tuple[int, ...]]]:
    """The op on a value of that shape as one op for each run of neighbouring axes, the last run first, with the
    shapes of their results; empty where there is one run.

    No calibration has seen what lies between, so that sums and means run in 16 bits.
    """
    runs = list[tuple[int, ...]]()
    for axis in op.axes:
        after = runs and runs[-1][-1] == axis - 1
        runs[-1:] = [(*runs[-1], axis)] if after else [*runs[-1:], (axis,)]
    made, source = list[tuple[TpuReduce, tuple[int, ...]]](), op.inputs[0]
    exact = op.function in ("max", "min")
    for run in runs[::-1] if len(runs) > 1 else ():
        output = op.output if run is runs[0] else f"{op.output}_{run[0]}"
        kept = [1 if axis in run else size for axis, size in enumerate(shape) if op.keep_dims or axis not in run]
        shape = tuple(kept)
        part = replace(op, inputs=(source,), output=output, axes=run, tags=op.tags if exact else (*op.tags, "hp"))
        known = op.range_of or op.output
        made.append((replace(part, range_of=known if run is not runs[0] else op.range_of), shape))
        source = output
    return made


def fits_a_lane(op: TpuReduce, shape: Sequence[int], chip: str) -> bool:
    """Whether the compiler reduces a value of that shape: two channels and two results (with `l2` three, and the
    tables for a root) must fit a lane, and the axes be an image's sides, or its height where others are behind.

    Of longer ones it gives other values, without a word.
    """
    where = chip_named(chip)
    bytes_each = 1 if op.mode == "INT8" else 2
    size = math.prod(shape[op.axes[0] : op.axes[-1] + 1])
    needed = 2 * align_up(size * bytes_each, where.eu_bytes) + 2 * where.eu_bytes
    if op.function == "l2":
        needed += where.eu_bytes + 2 * _TABLE_BYTES
    are_sides = size <= _LONGEST if math.prod(shape[op.axes[-1] + 1 :]) > 1 else _are_sides(size)
    return needed <= where.lane_bytes and are_sides


def rows_fit_a_lane(op: TpuLayerNorm, shape: Sequence[int], chip: str) -> bool:
    """Whether the compiler can normalise a value of that shape: a row and its squares, scale, bias, three numbers and
    the tables for a root must fit a lane.
    """
    where = chip_named(chip)
    size = math.prod(shape[op.axis :])
    rows = 2 + sum(each is not None for each in (op.scale, op.bias))
    needed = rows * align_up(2 * size, where.eu_bytes) + 3 * where.eu_bytes + 2 * _TABLE_BYTES
    return needed <= where.lane_bytes and _are_sides(size)


def _are_sides(size: int) -> bool:
    """Whether an image of so many pixels has sides that the compiler takes: it takes the least oblong one."""
    height = 1 if size <= _LONGEST else next(each for each in range(math.isqrt(size), 0, -1) if size % each == 0)
    return size // height <= _LONGEST
