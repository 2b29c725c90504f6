"""The product of two values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnkit.program import Mul, Tensor
from nnkit.quantize.fixed.format_table import FormatTable, Range
from nnkit.quantize.fixed.lowering import Lowering, bounded, common_fields
from nnkit.quantize.fixed.output_stage import output_stage
from nnkit.quantize.float_program import FloatMul
from nnkit.quantize.scheme import FixedPointScheme


class MulLowering(Lowering[FloatMul]):
    """The output is no finer than the product; an accumulator of 32 bits where every product fits it, else of 64."""

    def output_range(self, op: FloatMul, sources: Sequence[Range], calibrated: Range) -> Range:
        return bounded(op, calibrated, non_negative=all(source.non_negative for source in sources))

    def settle(
        self, op: FloatMul, formats: FormatTable, tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        return formats.lower_frac(op.output, sum(tensors[name].fixed.frac for name in op.inputs))

    def takes(
        self, op: FloatMul, before: Mapping[str, Tensor], tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        """Whether the accumulator has the same bits."""
        return self.build(op, before, scheme).accumulator == self.build(op, tensors, scheme).accumulator

    def build(self, op: FloatMul, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Mul:
        output, (a, b) = tensors[op.output], (tensors[name] for name in op.inputs)
        shift = a.fixed.frac + b.fixed.frac - output.fixed.frac
        reach = max(abs(x * y) for x in (a.low, a.high) for y in (b.low, b.high))
        fits = reach + (1 << max(shift - 1, 0)) < (1 << 31)
        stage = output_stage(output, shift, op.activation)
        return Mul(**common_fields(op), stage=stage, proof="proven", accumulator="int32" if fits else "int64")
