"""An activation on its own: a shift and a clip."""

from __future__ import annotations

from collections.abc import Mapping

from nnkit.program import Activation, Tensor
from nnkit.quantize.fixed.format_table import FormatTable
from nnkit.quantize.fixed.lowering import Lowering, common_fields
from nnkit.quantize.fixed.output_stage import output_stage
from nnkit.quantize.float_program import FloatActivation
from nnkit.quantize.scheme import FixedPointScheme


class ActivationLowering(Lowering[FloatActivation]):
    """The output is no finer than the input."""

    def settle(
        self, op: FloatActivation, formats: FormatTable, tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        return formats.lower_frac(op.output, tensors[op.inputs[0]].fixed.frac)

    def build(self, op: FloatActivation, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Activation:
        output = tensors[op.output]
        shift = tensors[op.inputs[0]].fixed.frac - output.fixed.frac
        return Activation(**common_fields(op), stage=output_stage(output, shift, op.activation), proof="proven")
