"""Ranges as wide as their formats, wherever that costs nothing.

A producer clips its result to the tensor's range, because the proofs of accumulators rely on it. The range is what
calibration saw, with headroom; the format, whose steps are powers of two, holds up to twice as much. To clip what a
format could hold is an error for nothing: one value in 100,000 that lies a tenth beyond what was seen costs a layer
of 16 bits half of its decibels. So each range grows towards its format's, as far as no op behind it has to give up
bits of its weights, or a 32-bit accumulator, for that.
"""

from __future__ import annotations

import heapq
from collections import ChainMap
from collections.abc import Mapping, Sequence

from nnkit.calibrate.stats import CalibrationStats
from nnkit.quantize.fixed.catalogue import lowering_of
from nnkit.quantize.fixed.format_table import FormatTable, Range
from nnkit.quantize.float_program import FloatProgram
from nnkit.quantize.formats import ValueRanges, tensor_of, tensors_of, value_ranges
from nnkit.quantize.scheme import FixedPointScheme

_SHARES = (1.0, 0.5, 0.25)
"""How much of the way from the range to the format's ends is tried, the most first."""


def widened(
    program: FloatProgram, formats: FormatTable, stats: CalibrationStats, scheme: FixedPointScheme
) -> FormatTable:
    """The settled formats, with wider ranges of calibrated values. Those that the recipe declares stay.

    A trial computes anew only what follows from the value that it widens.
    """
    calibrated = [name for name in program.inputs if name not in scheme.input_ranges]
    calibrated += [op.output for op in program.ops if lowering_of(op).has_own_range(op)]
    readers: dict[str, list[int]] = {}
    for index, op in enumerate(program.ops):
        for name in op.inputs:
            readers.setdefault(name, []).append(index)
    producers = {op.output: op for op in program.ops}
    rules = ValueRanges(program, stats, scheme)
    ranges, tensors = value_ranges(program, stats, scheme), tensors_of(program, formats, scheme)
    for value in calibrated:
        form = formats.format(value)
        unit = 2.0**-form.frac
        low, high = formats.with_ranges(ranges).integer_range(value)
        for share in _SHARES:
            ends = low + share * (form.qmin - low), high + share * (form.qmax - high)
            seen = Range(ends[0] * unit, ends[1] * unit, not form.signed)
            producer = producers.get(value)
            wide = seen if producer is None else rules.of_output(producer, ranges, seen)
            changed = _followed(value, wide, program, readers, rules, ranges)
            wider = formats.with_ranges(ChainMap(changed, ranges))
            after = {name: tensor_of(name, producers.get(name), program, wider, scheme) for name in changed}
            behind = sorted({index for name in changed for index in readers.get(name, ())})
            known = ChainMap(after, tensors)
            if all(lowering_of(program.ops[i]).takes(program.ops[i], tensors, known, scheme) for i in behind):
                ranges.update(changed)
                tensors.update(after)
                break
    return formats.with_ranges(ranges)


def _followed(
    value: str,
    wide: Range,
    program: FloatProgram,
    readers: Mapping[str, Sequence[int]],
    rules: ValueRanges,
    ranges: dict[str, Range],
) -> dict[str, Range]:
    """The ranges that change when that of `value` becomes `wide`, its own among them."""
    if wide == ranges[value]:
        return {}
    changed = {value: wide}
    known = ChainMap(changed, ranges)
    waiting = list(readers.get(value, ()))
    heapq.heapify(waiting)
    while waiting:
        index = heapq.heappop(waiting)
        op = program.ops[index]
        if op.output in changed:
            continue
        wider = rules.of_output(op, known)
        if wider != ranges[op.output]:
            changed[op.output] = wider
            for reader in readers.get(op.output, ()):
                heapq.heappush(waiting, reader)
    return changed
