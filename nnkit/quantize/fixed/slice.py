"""A part of a value."""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.program import Slice, Tensor
from nnkit.quantize.fixed.lowering import MovingLowering, common_fields
from nnkit.quantize.float_program import FloatSlice
from nnkit.quantize.scheme import FixedPointScheme


class SliceLowering(MovingLowering[FloatSlice]):
    """One format on both sides."""

    def build(self, op: FloatSlice, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Slice:
        return Slice(**common_fields(op), starts=op.starts, steps=op.steps)
