"""Axes in another order."""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.program import Tensor, Transpose
from nnkit.quantize.fixed.lowering import MovingLowering, common_fields
from nnkit.quantize.float_program import FloatTranspose
from nnkit.quantize.scheme import FixedPointScheme


class TransposeLowering(MovingLowering[FloatTranspose]):
    """One format on both sides."""

    def build(self, op: FloatTranspose, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Transpose:
        return Transpose(**common_fields(op), order=op.order)
