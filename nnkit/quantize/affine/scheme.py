"""What a target, a recipe or a benchmark asks of the affine quantiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from nnkit.calibrate.methods import Method
from nnkit.defaults import HEADROOM, PERCENTILE

RangeMethod: TypeAlias = Method
Bits: TypeAlias = Literal[8, 16]
BETTER_IN_FLOAT = ("LogSoftmax",)
"""Operators that stay in float where a target has both."""


@dataclass(frozen=True)
class AffineScheme:
    """Affine integers: weights per channel or per tensor, activations per tensor, bias int32.

    per_channel: one weight scale per output channel.
    symmetric_weights: signed around zero (8 bits: [-127, 127]); otherwise signed with zero points.
    symmetric_activations: signed with zero in the middle; otherwise unsigned with a zero point.
    activation_method, weight_method: how ranges are chosen; `percentile` is that of both.
    bias_correction: strictly layer by layer, where the quantiser gets samples.
    activation_bits, weight_bits: 8 or 16; layers tagged `_hp` have 16 of both (`nnkit.quantize.affine.widths`).
    headroom: factor on the ranges of 16-bit activations, of all methods but `percentile`, for values that calibration
        did not see: with 16 bits clipping costs more than resolution.
    eight_bit_headroom: the same for 8-bit activations, but not for the network's inputs, whose range is known. 1
        suits networks as they are, `nnkit.quantize.affine.balance.HEADROOM` balanced ones.
    """

    per_channel: bool = True
    symmetric_weights: bool = True
    symmetric_activations: bool = False
    activation_method: RangeMethod = "mse"
    weight_method: RangeMethod = "mse"
    percentile: float = PERCENTILE
    bias_correction: bool = True
    activation_bits: Bits = 8
    weight_bits: Bits = 8
    headroom: float = HEADROOM
    eight_bit_headroom: float = 1.0
