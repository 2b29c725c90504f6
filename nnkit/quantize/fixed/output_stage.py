"""The end of an op that does arithmetic: its shift, its clip, and a leaky slope."""

from __future__ import annotations

import numpy as np

from nnkit.errors import InternalError
from nnkit.program import Fixed, Leaky, OutputStage, Tensor
from nnkit.quantize.float_program import Nonlinearity


def output_stage(output: Tensor, shift: int, activation: Nonlinearity | None) -> OutputStage:
    """Shift, the output tensor's enforced range as the clip, and a leaky slope if there is one."""
    if shift < 0:
        raise InternalError(f"negative shift {shift} after the formats were settled", where=output.name)
    return OutputStage(shift, output.low, output.high, leaky_of(activation))


def leaky_of(activation: Nonlinearity | None) -> Leaky | None:
    """Slopes as int16 with the largest common shift (at most 29, so that v * slope + rounding fits 32 bits)."""
    if activation is None or activation.slopes is None:
        return None
    extreme = float(np.abs(activation.slopes).max(initial=0.0))
    shift = 15
    while shift < 29 and extreme * 2.0 ** (shift + 1) < 32767.5:
        shift += 1
    while shift > 0 and extreme * 2.0**shift >= 32767.5:
        shift -= 1
    slopes = Fixed(16, shift).quantize(activation.slopes).astype(np.int16)
    return Leaky(slopes, shift)
