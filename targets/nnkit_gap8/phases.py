"""Output phases of a transposed convolution.

A tap ky reaches output row oy = iy*stride - pad + ky*dilation, so only rows with
oy mod stride == (ky*dilation - pad) mod stride. Rows of one phase therefore use the same taps; likewise columns.
Every tap belongs to exactly one phase, so weights sorted by phase need no more room than unsorted.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.program import Window


@dataclass(frozen=True)
class Tap:
    """One kernel index along an axis, and `delta` with i = (o - phase) / stride + delta for output index o."""

    index: int
    delta: int


@dataclass(frozen=True)
class Phase:
    """Outputs with oy mod stride_h == y and ox mod stride_w == x, and the taps that reach them."""

    y: int
    x: int
    taps_y: tuple[Tap, ...]
    taps_x: tuple[Tap, ...]


def axis_taps(kernel: int, stride: int, dilation: int, pad: int, phase: int) -> tuple[Tap, ...]:
    """Taps that reach outputs of `phase` along one axis."""
    found = []
    for index in range(kernel):
        offset = index * dilation - pad  # o = i * stride + offset
        if offset % stride == phase:
            found.append(Tap(index, (phase - offset) // stride))
    return tuple(found)


def output_phases(window: Window) -> tuple[Phase, ...]:
    """All stride_h * stride_w phases, row by row; a phase no tap reaches has empty tuples (its outputs are bias)."""
    return tuple(
        Phase(
            y,
            x,
            axis_taps(window.kernel_h, window.stride_h, window.dilation_h, window.pad_top, y),
            axis_taps(window.kernel_w, window.stride_w, window.dilation_w, window.pad_left, x),
        )
        for y in range(window.stride_h)
        for x in range(window.stride_w)
    )
