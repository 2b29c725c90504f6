"""Normalisation of the last axis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from nnkit.program import NormalizeRows, Tensor
from nnkit.quantize.fixed.lowering import Lowering, common_fields
from nnkit.quantize.float_program import FloatNormalizeRows
from nnkit.quantize.row_constants import RowConstants
from nnkit.quantize.scheme import FixedPointScheme


class NormalizeRowsLowering(Lowering[FloatNormalizeRows]):
    """Gains and offsets in units of the output."""

    def build(self, op: FloatNormalizeRows, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> NormalizeRows:
        source, output = tensors[op.inputs[0]], tensors[op.output]
        constants = RowConstants.of(op.gain, op.offset, op.epsilon, 2.0**-source.fixed.frac, 2.0**-output.fixed.frac)
        return NormalizeRows(
            **common_fields(op), **asdict(constants), clip_min=output.low, clip_max=output.high, proof="proven"
        )
