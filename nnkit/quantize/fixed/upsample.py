"""Rows and columns repeated."""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.program import Tensor, Upsample
from nnkit.quantize.fixed.lowering import MovingLowering, common_fields
from nnkit.quantize.float_program import FloatUpsample
from nnkit.quantize.scheme import FixedPointScheme


class UpsampleLowering(MovingLowering[FloatUpsample]):
    """One format on both sides."""

    def build(self, op: FloatUpsample, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Upsample:
        return Upsample(**common_fields(op), scale_h=op.scale_h, scale_w=op.scale_w)
