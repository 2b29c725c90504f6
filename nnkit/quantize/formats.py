"""Formats of tensors: which values must share one, how wide it is, where its binary point lies.

Values that an op passes through unchanged (max pool, upsample, pad, reshape, slice, transpose) and the parts and
the result of a concatenation share a format: the alignment shift of the published flow is thereby pushed back into
the producing convolutions. A group's range is the hull of its members' calibrated ranges with headroom.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import InternalError, ModelError, RecipeError
from nnkit.program import Tensor
from nnkit.quantize.fixed.catalogue import lowering_of
from nnkit.quantize.fixed.format_table import FormatTable, Group, Range
from nnkit.quantize.float_program import (
    FloatConvolution,
    FloatEmbedding,
    FloatMaxPool,
    FloatOp,
    FloatPad,
    FloatProgram,
    FloatReshape,
    FloatSlice,
    FloatTranspose,
    FloatUpsample,
)
from nnkit.quantize.integer_bits import fraction_bits
from nnkit.quantize.known_ranges import known_range
from nnkit.quantize.scheme import FixedPointScheme

_MOVES = (FloatMaxPool, FloatUpsample, FloatPad, FloatReshape, FloatSlice, FloatTranspose)


def choose_formats(program: FloatProgram, stats: CalibrationStats, scheme: FixedPointScheme) -> FormatTable:
    """Ranges, groups, widths and the finest fraction each group allows (accumulators are settled later)."""
    ranges = value_ranges(program, stats, scheme)
    roots = _union(program, scheme)
    wide_values = sixteen_bit_values(program)
    members: dict[str, list[str]] = {}
    for value in ranges:
        members.setdefault(_find(roots, value), []).append(value)
    table: dict[str, Group] = {}
    numbers = numbers_of_rows(program).keys()
    for names in members.values():
        group = _group(names, ranges, wide_values, program, scheme, numbers)
        table.update(dict.fromkeys(names, group))
    return FormatTable(table, ranges)


def value_ranges(program: FloatProgram, stats: CalibrationStats, scheme: FixedPointScheme) -> dict[str, Range]:
    """Range of every input and layer output, headroom and activation bounds applied."""
    rules = ValueRanges(program, stats, scheme)
    ranges = {name: rules.of_input(name) for name in program.inputs}
    for op in program.ops:
        ranges[op.output] = rules.of_output(op, ranges)
    return ranges


class ValueRanges:
    """The rules that give each value its range, one value at a time."""

    def __init__(self, program: FloatProgram, stats: CalibrationStats, scheme: FixedPointScheme) -> None:
        self._stats = stats
        self._scheme = scheme
        self._numbers = numbers_of_rows(program)
        self._sixteen = sixteen_bit_values(program) if scheme.bits == 8 else None

    def of_input(self, name: str) -> Range:
        """The range of an input of the network: as declared, otherwise as calibrated."""
        if name in self._numbers:
            return Range(0.0, self._numbers[name], True)
        declared = self._scheme.input_ranges.get(name)
        if declared is not None:
            return Range(declared.low, declared.high, declared.low >= 0.0)
        return _with_headroom(self._stats, name, self._headroom(name), name)

    def of_output(self, op: FloatOp, ranges: Mapping[str, Range], seen: Range | None = None) -> Range:
        """The range of an op's output. ranges: of its inputs. seen: stands in for what calibration saw."""
        lowering, sources = lowering_of(op), [ranges[name] for name in op.inputs]
        known = known_range(op, 8 if self._sixteen is not None and op.output not in self._sixteen else 16)
        if known is not None:
            return Range(*known, known[0] >= 0.0, cut=True)
        if seen is None and lowering.has_own_range(op):
            seen = _with_headroom(self._stats, op.range_value, self._headroom(op.output), op.name)
        return lowering.output_range(op, sources, _hull(sources) if seen is None else seen)

    def _headroom(self, value: str) -> float:
        # Eight bits are limited by resolution, not by unseen values: headroom is for 16-bit tensors. A percentile
        # clips on purpose; the other methods end, in 16 bits, where calibration has seen the last value.
        clips = self._stats.percentile is not None
        return self._scheme.headroom if not clips and (self._sixteen is None or value in self._sixteen) else 1.0


def _hull(sources: Sequence[Range]) -> Range:
    """The range that holds all of them."""
    low, high = min(r.low for r in sources), max(r.high for r in sources)
    return Range(low, high, low >= 0.0 and all(r.non_negative for r in sources))


def _with_headroom(stats: CalibrationStats, value: str, headroom: float, layer: str) -> Range:
    observed = stats.ranges.get(value)
    if observed is None:
        raise InternalError(f"calibration has no range for value {value!r}", where=layer)
    slack = (headroom - 1.0) * observed.max_abs
    return Range(observed.low - slack, observed.high + slack, False)


def _union(program: FloatProgram, scheme: FixedPointScheme) -> dict[str, str]:
    roots: dict[str, str] = {}
    for op in program.ops:
        if lowering_of(op).shares_format(op, scheme):
            for name in op.inputs:
                roots[_find(roots, name)] = _find(roots, op.output)
    return roots


def _find(roots: dict[str, str], value: str) -> str:
    while value in roots and roots[value] != value:
        value = roots[value]
    return value


def sixteen_bit_values(program: FloatProgram) -> set[str]:
    """Values that a layer tagged `_hp` reads or writes, and the indices of tables."""
    tagged = {value for op in program.ops if op.tags.hp for value in (*op.inputs, op.output)}
    return tagged | numbers_of_rows(program).keys()


def numbers_of_rows(program: FloatProgram) -> dict[str, float]:
    """The values that tables are read by, and the largest number of each; through ops that move them, too."""
    numbers: dict[str, float] = {}
    for op in reversed(program.ops):
        if isinstance(op, FloatEmbedding):
            largest = len(op.table) - 1.0
        elif isinstance(op, _MOVES) and op.output in numbers:
            largest = numbers[op.output]
        else:
            continue
        numbers[op.inputs[0]] = max(numbers.get(op.inputs[0], 0.0), largest)
    return numbers


def _group(
    names: list[str],
    ranges: dict[str, Range],
    wide_values: set[str],
    program: FloatProgram,
    scheme: FixedPointScheme,
    numbers: Collection[str],
) -> Group:
    bits = 16 if any(name in wide_values for name in names) else scheme.bits
    low, high = min(ranges[n].low for n in names), max(ranges[n].high for n in names)
    non_negative = all(ranges[n].non_negative for n in names)
    leaky = any(
        op.output in names and op.nonlinearity is not None and op.nonlinearity.slopes is not None
        for op in program.ops
    )
    unsigned = (
        non_negative
        and not leaky
        and scheme.accumulate == "wide"
        and (scheme.unsigned == "always" or (scheme.unsigned == "auto" and bits == 8))
    )
    pinned = _pinned_frac(names, program, scheme)
    if pinned is not None:
        return Group(names, low, high, bits, True, pinned, fixed_frac=True)
    if _stays_integral(names, program, scheme, numbers):
        signed = not (unsigned or (bits == 8 and scheme.accumulate == "wide" and low >= 0))
        return Group(names, low, high, 16 if bits == 8 and signed else bits, signed, 0, fixed_frac=True)
    try:
        steps = 1 << (bits if unsigned else bits - 1)
        frac = fraction_bits(low, max(ranges[n].top(steps) for n in names), bits, not unsigned)
    except ValueError as error:
        raise ModelError(
            str(error), where=names[0], remedy="scale the network's values down, or run this layer in 16 bits"
        ) from error
    return Group(names, low, high, bits, not unsigned, frac)


def _stays_integral(
    names: list[str], program: FloatProgram, scheme: FixedPointScheme, numbers: Collection[str]
) -> bool:
    """A group fed by raw pixels or indices alone keeps them as they are (frac 0): nothing is converted."""
    inputs, declared = [name for name in names if name in program.inputs], scheme.input_ranges
    if not inputs or not all(name in numbers or (name in declared and declared[name].integral) for name in inputs):
        return False
    producers = [op for op in program.ops if op.output in names]
    return all(isinstance(op, _MOVES) for op in producers)


def _pinned_frac(names: list[str], program: FloatProgram, scheme: FixedPointScheme) -> int | None:
    if scheme.pinned is None:
        return None
    pins: dict[str, int] = {name: scheme.pinned.input_frac for name in names if name in program.inputs}
    convolutions = [op for op in program.ops if isinstance(op, FloatConvolution)]
    for op in convolutions:
        if op.output in names:
            pins[op.name] = scheme.pinned.of((op.name, *op.tags.origins)).output_frac
    for op in convolutions:
        if op.inputs[0] in names:
            pins[f"input of {op.name}"] = scheme.pinned.of((op.name, *op.tags.origins)).input_frac
    if not pins:
        return None
    if len(set(pins.values())) > 1:
        listed = ", ".join(f"{name}: {frac}" for name, frac in pins.items())
        raise RecipeError(
            f"these must share one format but are pinned to different fraction bits: {listed}",
            where=scheme.pinned.source,
            remedy="pin the producer's output_frac and its readers' input_frac to one number",
        )
    return next(iter(pins.values()))


def tensors_of(program: FloatProgram, formats: FormatTable, scheme: FixedPointScheme) -> dict[str, Tensor]:
    """Every value's format, and the stored integers that it can take."""
    producers: dict[str, FloatOp | None] = dict.fromkeys(program.inputs)
    producers.update((op.output, op) for op in program.ops)
    return {value: tensor_of(value, producer, program, formats, scheme) for value, producer in producers.items()}


def tensor_of(
    value: str, producer: FloatOp | None, program: FloatProgram, formats: FormatTable, scheme: FixedPointScheme
) -> Tensor:
    """One value's format, and the stored integers that it can take. producer: None for an input of the network."""
    form = formats.format(value)
    low, high = formats.integer_range(value)
    if scheme.pinned is not None and producer is not None:
        low, high = form.qmin, form.qmax
        activation = producer.nonlinearity
        if activation is not None and activation.low is not None:
            low = form.quantize_scalar(activation.low)
        if activation is not None and activation.high is not None:
            high = form.quantize_scalar(activation.high)
    return Tensor(value, program.shapes[value], form, low, high)
