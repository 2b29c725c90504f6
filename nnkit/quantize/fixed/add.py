"""The sum of two values, aligned to the finer of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnkit.program import Add, Tensor
from nnkit.quantize.fixed.format_table import FormatTable, Range
from nnkit.quantize.fixed.lowering import Lowering, bounded, common_fields
from nnkit.quantize.fixed.output_stage import output_stage
from nnkit.quantize.float_program import FloatAdd
from nnkit.quantize.scheme import FixedPointScheme

_MAX_ALIGN_SHIFT = 14  # (16-bit value << 14) twice still fits 32 bits


class AddLowering(Lowering[FloatAdd]):
    """Inputs whose fractions are too far apart to be aligned become coarser; the output is no finer than both."""

    def output_range(self, op: FloatAdd, sources: Sequence[Range], calibrated: Range) -> Range:
        return bounded(op, calibrated, non_negative=all(source.non_negative for source in sources))

    def settle(
        self, op: FloatAdd, formats: FormatTable, tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        fracs = [tensors[name].fixed.frac for name in op.inputs]
        finest, coarsest = max(fracs), min(fracs)
        if finest - coarsest <= _MAX_ALIGN_SHIFT:
            return formats.lower_frac(op.output, finest)
        changed = False
        for name, frac in zip(op.inputs, fracs, strict=True):
            if frac > coarsest + _MAX_ALIGN_SHIFT:
                changed |= formats.lower_frac(name, coarsest + _MAX_ALIGN_SHIFT)
        return changed

    def build(self, op: FloatAdd, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Add:
        output = tensors[op.output]
        fracs = [tensors[name].fixed.frac for name in op.inputs]
        finest = max(fracs)
        stage = output_stage(output, finest - output.fixed.frac, op.activation)
        return Add(**common_fields(op), shifts=(finest - fracs[0], finest - fracs[1]), stage=stage, proof="proven")
