"""The logarithm of a softmax along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log

from nnkit.errors import ModelError
from nnkit.program import LogSoftmax, Softmax, Tensor
from nnkit.program.logarithm import LOGARITHM_BITS, logarithm_table
from nnkit.quantize.fixed.format_table import Range
from nnkit.quantize.fixed.lowering import Lowering, common_fields
from nnkit.quantize.float_program import FloatLogSoftmax
from nnkit.quantize.scheme import FixedPointScheme

_MOST_ELEMENTS = 32768
"""Sums of so many fit 32 bits."""
_MOST_FRACTION = 40
"""Bits of fraction with which sums of a difference of 17 bits and a logarithm stay below 2^62."""


class LogSoftmaxLowering(Lowering[FloatLogSoftmax]):
    """In 16 bits the output lies below 0, and as low as calibration saw it; in 8 its range is known."""

    def output_range(self, op: FloatLogSoftmax, sources: Sequence[Range], calibrated: Range) -> Range:
        return replace(calibrated, high=0.0)

    def build(self, op: FloatLogSoftmax, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> LogSoftmax:
        source, output = tensors[op.inputs[0]], tensors[op.output]
        frac, size = max(LOGARITHM_BITS, source.fixed.frac, output.fixed.frac + 1), output.shape[op.axis]
        spread = frac - source.fixed.frac
        if frac > _MOST_FRACTION or spread > _MOST_FRACTION or size > _MOST_ELEMENTS:
            raise ModelError(
                f"the logarithm of a softmax of {size} elements in {source.fixed} has no exact integers here",
                where=op.name,
                remedy=f"take at most {_MOST_ELEMENTS} elements, of values between 2^-24 and 2^24",
            )
        coarse, fine = Softmax.tables(source.fixed.bits, source.fixed.frac)
        # Exponentials are off by 2.5 units each, of a sum that is 2^16 or more; between entries a logarithm bends by
        # at most 2^-19, and table, product and ln 2 are rounded.
        error = -log(1.0 - min(2.5 * size / 2**16, 0.999)) + 2.0**-19 + 18 * 2.0**-LOGARITHM_BITS
        bound = 0.5 + error * 2.0**output.fixed.frac
        return LogSoftmax(
            **common_fields(op),
            axis=op.axis,
            coarse=coarse,
            fine=fine,
            logarithms=logarithm_table(),
            spread=spread,
            widen=frac - LOGARITHM_BITS,
            shift=frac - output.fixed.frac,
            clip_min=output.low,
            clip_max=output.high,
            proof_note=f"at most {bound:.3g} units of its output from LogSoftmax of its input",
        )
