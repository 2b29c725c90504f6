"""An average pool that leaves padding out of the count, as pools without padding over parts of the image.

Windows that lie on the image with equally many rows and columns form a rectangle of the output; each rectangle is a
pool over a slice of the input, its kernel what lies on the image. A 3 x 3 window with padding 1 has nine of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nnkit.program import Window
from nnkit_tpu.program import TpuConcat, TpuOp, TpuPool, TpuSlice

Made = tuple[TpuOp, tuple[int, ...]]


@dataclass(frozen=True)
class Run:
    """Successive windows along one axis with `taps` each on the image; the first of them begins at `start`."""

    start: int
    taps: int
    windows: int

    def end(self, stride: int) -> int:
        """Behind the last row or column that is read."""
        return self.start + (self.windows - 1) * stride + self.taps


def runs(size: int, kernel: int, stride: int, pads: tuple[int, int]) -> tuple[Run, ...]:
    """The windows along an axis of `size`, in order; pads: before and behind."""
    merged: list[Run] = []
    for index in range((size + sum(pads) - kernel) // stride + 1):
        begin = index * stride - pads[0]
        start, end = max(begin, 0), min(begin + kernel, size)
        last = merged[-1] if merged else None
        if last is not None and last.taps == end - start and last.start + last.windows * stride == start:
            merged[-1] = replace(last, windows=last.windows + 1)
        else:
            merged.append(Run(start, end - start, 1))
    return tuple(merged)


def pools_of_parts(op: TpuPool, shape: Sequence[int]) -> list[Made]:
    """Slices, pools and concatenations with their outputs' shapes; the last one has the output of `op`.

    shape: of the input, [N, C, H, W].
    """
    w = op.window
    height, width = shape[2:]
    rows = runs(height, w.kernel_h, w.stride_h, (w.pad_top, w.pad_bottom))
    columns = runs(width, w.kernel_w, w.stride_w, (w.pad_left, w.pad_right))
    whole = sum(column.windows for column in columns)
    made: list[Made] = []
    strips: list[str] = []
    for i, row in enumerate(rows):
        parts: list[str] = []
        for j, column in enumerate(columns):
            bottom, right = row.end(w.stride_h), column.end(w.stride_w)
            source = op.inputs[0]
            if (row.start, column.start, bottom, right) != (0, 0, height, width):
                begins, ends = (0, 0, row.start, column.start), (*shape[:2], bottom, right)
                common = _common(op, f"slice_{i}_{j}", op.inputs[0])
                taken = TpuSlice(**common, inputs=op.inputs, offsets=begins, steps=(1,) * 4, ends=ends)
                made.append((taken, (*shape[:2], bottom - row.start, right - column.start)))
                source = taken.output
            window = Window(
                kernel_h=row.taps,
                kernel_w=column.taps,
                stride_h=w.stride_h if row.windows > 1 else 1,
                stride_w=w.stride_w if column.windows > 1 else 1,
            )
            common = _common(op, "" if len(rows) == len(columns) == 1 else f"part_{i}_{j}", op.output)
            pool = replace(op, **common, inputs=(source,), window=window)
            made.append((pool, (*shape[:2], row.windows, column.windows)))
            parts.append(pool.output)
        if len(parts) > 1:
            common = _common(op, "" if len(rows) == 1 else f"strip_{i}", op.output)
            made.append((TpuConcat(**common, inputs=tuple(parts), axis=3), (*shape[:2], row.windows, whole)))
        strips.append(made[-1][0].output)
    if len(strips) > 1:
        joined = TpuConcat(**_common(op, "", op.output), inputs=tuple(strips), axis=2)
        made.append((joined, (*shape[:2], sum(row.windows for row in rows), whole)))
    return made


def _common(op: TpuPool, suffix: str, like: str) -> dict[str, Any]:
    """What all ops of a pool share; suffix: of the name, empty for the op that gives the pool's own output."""
    tail = f"_{suffix}" if suffix else ""
    return {
        "name": op.name + tail,
        "output": op.output + tail,
        "tags": op.tags,
        "origins": op.origins,
        "range_of": like if suffix else op.range_of,
    }
