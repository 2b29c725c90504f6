"""Padding that no convolution took in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nnkit.program import Pad, Tensor
from nnkit.quantize.fixed.format_table import Range
from nnkit.quantize.fixed.lowering import MovingLowering, common_fields
from nnkit.quantize.float_program import FloatPad
from nnkit.quantize.scheme import FixedPointScheme


class PadLowering(MovingLowering[FloatPad]):
    """The range takes the padded value in."""

    def output_range(self, op: FloatPad, sources: Sequence[Range], calibrated: Range) -> Range:
        low, high = min(calibrated.low, op.value), max(calibrated.high, op.value)
        return replace(calibrated, low=low, high=high, non_negative=low >= 0.0 and calibrated.non_negative)

    def build(self, op: FloatPad, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Pad:
        top, left, bottom, right = op.pads
        value = tensors[op.output].fixed.quantize_scalar(op.value)
        return Pad(**common_fields(op), top=top, left=left, bottom=bottom, right=right, value=value)
