"""What a target, a recipe or a benchmark asks of the affine quantiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from nnkit.calibrate.methods import Method

RangeMethod: TypeAlias = Method


@dataclass(frozen=True)
class AffineScheme:
    """Affine 8-bit integers: weights per channel or per tensor, activations per tensor, bias int32.

    per_channel: one weight scale per output channel.
    symmetric_weights: s8 in [-127, 127] with zero in the middle; otherwise s8 with zero points.
    symmetric_activations: s8 with zero in the middle; otherwise u8 with a zero point.
    activation_method, weight_method: how ranges are chosen; `percentile` is that of both.
    bias_correction: strictly layer by layer, where the quantiser gets samples.
    """

    per_channel: bool = True
    symmetric_weights: bool = True
    symmetric_activations: bool = False
    activation_method: RangeMethod = "mse"
    weight_method: RangeMethod = "mse"
    percentile: float = 99.99
    bias_correction: bool = True
