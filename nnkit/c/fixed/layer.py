"""A layer's parameters as C constants, one field per line with its meaning, and the calls that take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from nnkit.c.text import int32_literal
from nnkit.program import Fixed, OutputStage, Window

Line: TypeAlias = tuple[str, str]
"""Values of a constant, and the comment behind them."""


@dataclass(frozen=True)
class Constant:
    """A C constant: `static const <type> <name> = { lines };`, of a type in `nnkit_task.h` or an array."""

    type: str
    name: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Call:
    """One kernel call: the function, its parameters, and which inputs of the op it reads.

    out_channel: the output's first channel that it writes (a concatenation has one call per part). copies: the
    output is the input, so that nothing is left to do where both lie at one address.
    """

    kernel: str
    layer: str
    inputs: tuple[int, ...]
    constants: tuple[Constant, ...]
    out_channel: int = 0
    copies: bool = False


def window_line(window: Window) -> Line:
    """A `struct nnkit_window`."""
    values = (
        f"{window.kernel_h}, {window.kernel_w}, {window.stride_h}, {window.stride_w}, "
        f"{window.dilation_h}, {window.dilation_w}, {window.pad_top}, {window.pad_left}"
    )
    return f"{{{values}}}", "window: kernel, stride, dilation, padding above and left"


def stage_lines(stage: OutputStage, storage: Fixed, clip_last: bool = False) -> tuple[Line, ...]:
    """An output stage: shift, limits, slopes and clip.

    The clip lies inside the storage's range, so that the limits can do both. With slopes, or with `clip_last`, the
    limits are the storage's own and the clip comes last.
    """
    low, high = storage.qmin, storage.qmax
    if stage.leaky is None and not clip_last:
        low, high = max(stage.clip_min, low), min(stage.clip_max, high)
    slope_shift = stage.leaky.shift if stage.leaky is not None else 0
    return (
        (f"{stage.shift}, {_rounding(stage.shift)}", "shift, rounding"),
        (f"{low}, {high}", "low, high"),
        (f"{slope_shift}, {_rounding(slope_shift)}", "slope shift, rounding"),
        (f"{stage.clip_min}, {stage.clip_max}", "clip"),
    )


def _rounding(shift: int) -> str:
    return int32_literal(1 << (shift - 1)) if shift else "0"
