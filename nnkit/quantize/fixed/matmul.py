"""The product of two computed matrices."""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.program import MatMul, Tensor
from nnkit.quantize.fixed.format_table import FormatTable
from nnkit.quantize.fixed.lowering import Lowering, common_fields
from nnkit.quantize.fixed.output_stage import output_stage
from nnkit.quantize.float_program import FloatMatMul
from nnkit.quantize.scheme import FixedPointScheme


class MatMulLowering(Lowering[FloatMatMul]):
    """The output is no finer than the products; an accumulator of 32 bits where every sum fits it, else of 64."""

    def settle(
        self, op: FloatMatMul, formats: FormatTable, tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        return formats.lower_frac(op.output, sum(tensors[name].fixed.frac for name in op.inputs))

    def takes(
        self, op: FloatMatMul, before: Mapping[str, Tensor], tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        """Whether the accumulator has the same bits."""
        return self.build(op, before, scheme).accumulator == self.build(op, tensors, scheme).accumulator

    def build(self, op: FloatMatMul, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> MatMul:
        output, (a, b) = tensors[op.output], (tensors[name] for name in op.inputs)
        shift = a.fixed.frac + b.fixed.frac - output.fixed.frac
        reach = a.shape[-1] * max(abs(x * y) for x in (a.low, a.high) for y in (b.low, b.high))
        fits = reach + (1 << max(shift - 1, 0)) < (1 << 31)
        stage = output_stage(output, shift, None)
        return MatMul(**common_fields(op), stage=stage, proof="proven", accumulator="int32" if fits else "int64")
