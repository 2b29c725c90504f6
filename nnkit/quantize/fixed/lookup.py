"""A function by table: one entry for each input of 8 bits, one for each 64 inputs of 16 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nnkit.program import Lookup, Tensor
from nnkit.program.tensor import IntArray
from nnkit.quantize.fixed.format_table import Range
from nnkit.quantize.fixed.lowering import Lowering, bounded, common_fields
from nnkit.quantize.float_program import FloatFunction
from nnkit.quantize.functions import STEEP
from nnkit.quantize.scheme import FixedPointScheme

_STEP_BITS = {8: 0, 16: 6}
AT_A_POLE = ("Sqrt", "Log", "Reciprocal")
_STEP_BITS_AT_A_POLE = 3
"""For functions in 16 bits that bend most near 0; their tables hold only the values that the input can have."""


class LookupLowering(Lowering[FloatFunction]):
    """The output's range is the function's over the input's, of a steep one as calibrated.

    How far the op is from the function, clipped to the output's format, is measured on all of the input's range.
    """

    def has_own_range(self, op: FloatFunction) -> bool:
        return op.function.name in STEEP

    def output_range(self, op: FloatFunction, sources: Sequence[Range], calibrated: Range) -> Range:
        if op.function.name in STEEP:
            return bounded(op, calibrated)
        low, high = op.function.image(calibrated.low, calibrated.high)
        return Range(low, high, low >= 0.0)

    def takes(
        self, op: FloatFunction, before: Mapping[str, Tensor], tensors: Mapping[str, Tensor], scheme: FixedPointScheme
    ) -> bool:
        """Not where the table is made for the input's range alone."""
        return op.function.name not in AT_A_POLE

    def build(self, op: FloatFunction, tensors: Mapping[str, Tensor], scheme: FixedPointScheme) -> Lookup:
        source, output = tensors[op.inputs[0]], tensors[op.output]
        form = source.fixed
        step_bits, first, last = _STEP_BITS[form.bits], form.qmin, form.qmax
        if step_bits and op.function.name in AT_A_POLE:
            step_bits, first, last = _STEP_BITS_AT_A_POLE, source.low, source.high
        count = ((last - first) >> step_bits) + 1 + (step_bits > 0)
        entries = first + (np.arange(count, dtype=np.int64) << step_bits)
        least, most = (output.low, output.high) if step_bits == 0 else (output.fixed.qmin, output.fixed.qmax)
        table = np.clip(
            np.floor(np.clip(_in_units(op, source, output, entries), least, most) + 0.5), least, most
        ).astype(np.int64)
        lookup = Lookup(
            **common_fields(op),
            table=table,
            least=first,
            step_bits=step_bits,
            clip_min=output.low,
            clip_max=output.high,
        )
        inputs = np.arange(source.low, source.high + 1, dtype=np.int64)
        exact = np.clip(_in_units(op, source, output, inputs), output.low, output.high)
        error = float(np.abs(lookup.compute([inputs], tensors) - exact).max())
        return replace(lookup, proof_note=f"at most {error:.3g} units of its output from {op.function.name}")


def _in_units(op: FloatFunction, source: Tensor, output: Tensor, stored: IntArray) -> NDArray[np.float64]:
    """The function of stored inputs in the output's units, not rounded."""
    return op.function.values(stored * 2.0**-source.fixed.frac) * 2.0**output.fixed.frac
