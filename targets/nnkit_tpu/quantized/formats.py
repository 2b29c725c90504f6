"""A value's scale and zero point as the compiler states them, and the range that makes it choose these.

In its mode with zero points the compiler takes a value's scale and zero point from its minimum and maximum in the
calibration table: 255 steps between them, signed where the minimum is below 0, otherwise unsigned with the zero point
0. The network's integers and the compiler's are the same but for a constant: those of a type with another sign are
128 apart.
"""

from __future__ import annotations

from nnkit.calibrate.stats import ValueRange
from nnkit.program.formats import Affine

_STEPS = 255


def range_of(form: Affine) -> ValueRange:
    """What the integers of the format stand for, from the least to the largest."""
    scale, zero = form.scale[0], form.zero_point[0]
    low, high = (form.qmin - zero) * scale, (form.qmax - zero) * scale
    return ValueRange(low, high, low, high)


def as_compiled(form: Affine) -> Affine:
    """The format that the compiler chooses for the range of `form`."""
    known = range_of(form)
    scale = (known.high - known.low) / _STEPS
    signed = known.low < 0.0
    return Affine(8, (scale,), (form.zero_point[0] - form.qmin - (128 if signed else 0),), signed=signed)
