"""A transposed convolution as ordinary ones of stride 1, none of which multiplies an inserted zero.

Row q * stride_h + i of the output takes the kernel rows ky for which (i + pad_top - ky) / stride_h is a whole
number d, each from row q + d of the input: for one i the same d for every q. That is a convolution of stride 1, and
columns are alike. Here each i is one convolution; the stride_w columns of the output that belong to one column of the
input are channels beside each other of it, which is how they lie in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Window
from nnkit.program.affine import AffineConv, AffineTensor, Requantize
from nnkit.program.formats import Affine


@dataclass(frozen=True, eq=False)
class RowPhase:
    """Every stride_h-th row of the output from `first_row` on. output: [stride_w * C, rows, W / stride_w].

    Where the kernel is shorter than its stride the window reaches over more of the input than these rows need.
    """

    op: AffineConv
    output: AffineTensor
    first_row: int


@dataclass(frozen=True)
class _Taps:
    """The kernel's places along one side that a phase takes, each with its distance in the input."""

    distances: tuple[tuple[int, int], ...]

    @staticmethod
    def of(phase: int, kernel: int, stride: int, pad: int) -> _Taps:
        """The places of one phase."""
        places = [(at, phase + pad - at) for at in range(kernel)]
        return _Taps(tuple((at, down // stride) for at, down in places if down % stride == 0))


def row_phases(op: AffineConv, source: AffineTensor, output: AffineTensor) -> list[RowPhase] | None:
    """The convolutions; None: of groups, of taps that lie apart, or where the columns are no whole number of each."""
    window = op.window
    channels, height, width = output.shape
    if not op.transposed or op.groups != 1 or (window.dilation_h, window.dilation_w) != (1, 1):
        return None
    if width % window.stride_w:
        return None
    columns = [_Taps.of(i, window.kernel_w, window.stride_w, window.pad_left) for i in range(window.stride_w)]
    left, right = _reach(columns)
    phases = []
    for first_row in range(min(window.stride_h, height)):
        rows = _Taps.of(first_row, window.kernel_h, window.stride_h, window.pad_top)
        top, bottom = _reach([rows])
        count = -(-(height - first_row) // window.stride_h)
        shape = (window.stride_w * channels, count, width // window.stride_w)
        pads = _below(shape[1], bottom, source.shape[1]), _below(shape[2], right, source.shape[2])
        ordinary = Window(bottom - top + 1, right - left + 1, 1, 1, 1, 1, -top, -left, *pads)
        weight = _weight(op, rows, columns, (top, left), ordinary)
        phases.append(RowPhase(_ordinary(op, weight, ordinary, source), replace(output, shape=shape), first_row))
    return phases


def _reach(all_taps: Sequence[_Taps]) -> tuple[int, int]:
    """The least and the largest distance, 0 among them."""
    distances = [0, *(distance for taps in all_taps for _, distance in taps.distances)]
    return min(distances), max(distances)


def _below(outputs: int, largest: int, inputs: int) -> int:
    return max(0, outputs + largest - inputs)


def _weight(
    op: AffineConv, rows: _Taps, columns: Sequence[_Taps], first: tuple[int, int], window: Window
) -> NDArray[Any]:
    """[stride_w * O, I, kh, kw]: where a phase has no tap, the channel's zero point."""
    kernel = op.weight.swapaxes(0, 1)  # [O, I, kh, kw]
    zeros = np.asarray(op.weight_format.zero_point, kernel.dtype).reshape(-1, 1, 1, 1)
    parts = []
    for column in columns:
        part = np.broadcast_to(zeros, (*kernel.shape[:2], window.kernel_h, window.kernel_w)).copy()
        for y, down in rows.distances:
            for x, across in column.distances:
                part[:, :, down - first[0], across - first[1]] = kernel[:, :, y, x]
        parts.append(part)
    return np.concatenate(parts)


def _ordinary(op: AffineConv, weight: NDArray[Any], window: Window, source: AffineTensor) -> AffineConv:
    times = op.window.stride_w
    return replace(
        op,
        weight=weight,
        weight_format=_repeated_format(op.weight_format, times),
        bias=np.tile(op.bias, times),
        window=window,
        pad_value=source.zero_point,
        transposed=False,
        requantize=_repeated_stage(op.requantize, times),
    )


def _repeated_format(form: Affine, times: int) -> Affine:
    if form.axis is None:
        return form
    return replace(form, scale=form.scale * times, zero_point=form.zero_point * times, axis=0)


def _repeated_stage(stage: Requantize, times: int) -> Requantize:
    def repeated(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.tile(values, times) if values.size > 1 else values

    negative = stage.negative_multiplier
    return replace(
        stage,
        multiplier=repeated(stage.multiplier),
        shift=repeated(stage.shift),
        negative_multiplier=None if negative is None else repeated(negative),
    )
