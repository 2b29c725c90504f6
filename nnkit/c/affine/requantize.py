"""RQ in C: which of its forms an op needs, and the numbers of that form.

`fast`: all in 32 bits. With the sum lifted by 2^lift, so that the shift is more than 32, the upper half of its
product with the multiplier is all that RQ looks at; rounding and zero point are one addition:

    (high(sum << lift, m) + ((1 + 2 * zero) << shift)) >> shift >> 1,    shift = s + lift - 33 >= 0

`wide`: any multiplier, shift and sum, through 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnkit.program.affine import AffineTensor, Requantize

_LIMIT = 1 << 31


@dataclass(frozen=True, eq=False)
class Stage:
    """form: `fast` or `wide`; clamp: `u8`, `i8` or `range`. shift: of every channel, as the form has it.

    negative: multipliers of negative sums, where they differ.
    """

    form: str
    clamp: str
    lift: int
    multiplier: NDArray[np.int64]
    shift: NDArray[np.int64]
    negative: NDArray[np.int64] | None
    zero: int
    low: int
    high: int

    @property
    def variant(self) -> tuple[tuple[str, str], ...]:
        """What it says of a kernel's variant."""
        return (
            ("form", self.form),
            ("clamp", self.clamp),
            ("lifted", "lifted" if self.lift else ""),
            ("negative", "slopes" if self.negative is not None else ""),
        )

    @property
    def numbers(self) -> dict[str, int]:
        """What a kernel's structure holds of it."""
        return {"lift": 1 << self.lift, "zero": self.zero, "low": self.low, "high": self.high}


def stage_of(requantize: Requantize, output: AffineTensor, channels: int, reach: int, *, wide: bool = False) -> Stage:
    """The stage of `channels` sums, of magnitudes of at most `reach`. wide: only that form will do."""
    multiplier = np.broadcast_to(requantize.multiplier, (channels,)).astype(np.int64)
    shift = np.broadcast_to(requantize.shift, (channels,)).astype(np.int64)
    negative = requantize.negative_multiplier
    if negative is not None:
        negative = np.broadcast_to(negative, (channels,)).astype(np.int64)
    low, high, zero = requantize.clip_min, requantize.clip_max, output.zero_point
    clamp = {(0, 255): "u8", (-128, 127): "i8"}.get((low, high), "range")
    lift = max(0, 33 - int(shift.min(initial=33)))
    fast_shift = shift + lift - 33
    largest = np.maximum(np.abs(multiplier), 0 if negative is None else np.abs(negative))
    sums = [(reach << lift) * int(m) // (1 << 32) + 1 for m in largest]
    added = [abs(1 + 2 * zero) << int(s) for s in fast_shift]
    fits = reach << lift < _LIMIT and all(a + b < _LIMIT for a, b in zip(sums, added, strict=True))
    if wide or not fits or int(largest.max(initial=0)) >= _LIMIT:
        return Stage("wide", clamp, 0, multiplier, shift, negative, zero, low, high)
    return Stage("fast", clamp, lift, multiplier, fast_shift, negative, zero, low, high)
