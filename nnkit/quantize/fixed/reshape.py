"""The same numbers under another shape."""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.program import Reshape, Tensor
from nnkit.quantize.fixed.lowering import MovingLowering, common_fields
from nnkit.quantize.float_program import FloatReshape
from nnkit.quantize.scheme import FixedPointScheme


class ReshapeLowering(MovingLowering[FloatReshape]):
    """One format on both sides."""

    def build(self, op: FloatReshape, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Reshape:
        return Reshape(**common_fields(op))
