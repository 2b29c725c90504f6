"""Concatenation along the channels; the parts and the result share a format, so that nothing is shifted."""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.program import Concat, Tensor
from nnkit.quantize.fixed.format_table import FormatTable
from nnkit.quantize.fixed.lowering import MovingLowering, common_fields
from nnkit.quantize.float_program import FloatConcat
from nnkit.quantize.scheme import FixedPointScheme


class ConcatLowering(MovingLowering[FloatConcat]):
    """Pinned formats may differ: then parts are shifted to a result that is no finer than the coarsest."""

    def shares_format(self, op: FloatConcat, scheme: FixedPointScheme) -> bool:
        return scheme.pinned is None

    def settle(
        self, op: FloatConcat, formats: FormatTable, tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        return formats.lower_frac(op.output, min(tensors[name].fixed.frac for name in op.inputs))

    def build(self, op: FloatConcat, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Concat:
        frac = tensors[op.output].fixed.frac
        return Concat(**common_fields(op), shifts=tuple(tensors[name].fixed.frac - frac for name in op.inputs))
