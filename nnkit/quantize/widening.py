"""Ranges as wide as their formats, wherever that costs nothing.

A producer clips its result to the tensor's range, because the proofs of accumulators rely on it. The range is what
calibration saw, with headroom; the format, whose steps are powers of two, holds up to twice as much. To clip what a
format could hold is an error for nothing: one value in 100,000 that lies a tenth beyond what was seen costs a layer
of 16 bits half of its decibels. So each range grows towards its format's, as far as no op behind it has to give up
bits of its weights, or a 32-bit accumulator, for that.
"""

from __future__ import annotations

from nnkit.calibrate.stats import CalibrationStats
from nnkit.quantize.fixed.catalogue import lowering_of
from nnkit.quantize.fixed.format_table import FormatTable, Range
from nnkit.quantize.float_program import FloatProgram
from nnkit.quantize.formats import tensors_of, value_ranges
from nnkit.quantize.scheme import FixedPointScheme

_SHARES = (1.0, 0.5, 0.25)
"""How much of the way from the range to the format's ends is tried, the most first."""


def widened(
    program: FloatProgram, formats: FormatTable, stats: CalibrationStats, scheme: FixedPointScheme
) -> FormatTable:
    """The settled formats, with wider ranges of calibrated values. Those that the recipe declares stay."""
    calibrated = [name for name in program.inputs if name not in scheme.input_ranges]
    calibrated += [op.output for op in program.ops if lowering_of(op).has_own_range(op)]
    readers: dict[str, list[int]] = {}
    for index, op in enumerate(program.ops):
        for name in op.inputs:
            readers.setdefault(name, []).append(index)
    whole: dict[str, Range] = {}
    before = tensors_of(program, formats, scheme)
    for value in calibrated:
        form = formats.format(value)
        unit = 2.0**-form.frac
        low, high = formats.integer_range(value)
        for share in _SHARES:
            ends = low + share * (form.qmin - low), high + share * (form.qmax - high)
            trial = whole | {value: Range(ends[0] * unit, ends[1] * unit, not form.signed)}
            wider = formats.with_ranges(value_ranges(program, stats, scheme, trial))
            behind = {index for name in wider.changed(formats) for index in readers.get(name, ())}
            after = tensors_of(program, wider, scheme)
            ops = [program.ops[index] for index in sorted(behind)]
            if all(lowering_of(op).takes(op, before, after, scheme) for op in ops):
                whole, formats, before = trial, wider, after
                break
    return formats
