"""The sign of a number: a clip of the stored integer to -1 .. 1, which is what is stored for -1, 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnkit.program import Activation, OutputStage, Tensor
from nnkit.quantize.fixed.format_table import FormatTable, Range
from nnkit.quantize.fixed.lowering import Lowering, common_fields
from nnkit.quantize.float_program import FloatSign
from nnkit.quantize.scheme import FixedPointScheme


class SignLowering(Lowering[FloatSign]):
    """The output has no bits behind the point, so that no shift is left to do."""

    def has_own_range(self, op: FloatSign) -> bool:
        return False

    def output_range(self, op: FloatSign, sources: Sequence[Range], calibrated: Range) -> Range:
        return Range(*op.function.image(calibrated.low, calibrated.high), calibrated.low >= 0.0)

    def settle(
        self, op: FloatSign, formats: FormatTable, tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        return formats.lower_frac(op.output, 0)

    def build(self, op: FloatSign, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Activation:
        output = tensors[op.output]
        clip = OutputStage(0, max(output.low, -1), min(output.high, 1), None)
        return Activation(**common_fields(op), stage=clip, proof="proven")
