"""The power-of-two fixed-point quantiser: float program + ranges -> Program.

Sources: the published GAP8 quantiser for fraction bits and norm; the accumulator proofs are ours
(`nnkit.quantize.proof`) and replace the published overflow guard, which bounds the output but not the sums.
"""

from __future__ import annotations

from dataclasses import replace

from nnkit.calibrate.methods import SEARCHES, refit
from nnkit.calibrate.stats import CalibrationStats
from nnkit.program import Conv2d, Op, Program
from nnkit.quantize.fixed.catalogue import lowering_of
from nnkit.quantize.fixed.conv_weights import ConvolutionLowering
from nnkit.quantize.fixed.format_table import FormatTable
from nnkit.quantize.float_program import FloatProgram
from nnkit.quantize.formats import choose_formats, sixteen_bit_values, tensors_of
from nnkit.quantize.rounding_bias import without_rounding_bias
from nnkit.quantize.scheme import FixedPointScheme
from nnkit.quantize.used_ranges import UsedRanges
from nnkit.quantize.widening import widened


def quantize(
    program: FloatProgram, stats: CalibrationStats, scheme: FixedPointScheme, *, name: str = "network"
) -> Program:
    """Float program + calibrated ranges -> Program with explicit formats and integer weights.

    Raises ModelError for ranges that fit no format, RecipeError for pinned formats that are missing or contradict
    each other.
    """
    stats = _fitted(program, stats, scheme)
    formats = choose_formats(program, stats, scheme)
    _settle(program, formats, scheme)
    if scheme.pinned is None and scheme.accumulator_bits == 32 and scheme.accumulate == "wide":
        _balance(program, formats, scheme)
        _settle(program, formats, scheme)
    if scheme.pinned is None and scheme.accumulate == "wide":
        program = without_rounding_bias(program, {value: formats.format(value) for value in _values(program)})
        _settle(program, formats, scheme)
    if scheme.pinned is None and stats.percentile is None:
        formats = widened(program, formats, stats, scheme)
    return _program(program, formats, scheme, name)


def ranges_used(program: FloatProgram, stats: CalibrationStats, scheme: FixedPointScheme) -> UsedRanges:
    """The ranges that `quantize` takes: each value's for its own number of bits, without headroom."""
    declared = scheme.input_ranges
    read = [name for name in program.inputs if name not in declared]
    read += [op.range_value for op in program.ops if lowering_of(op).has_own_range(op)]
    return UsedRanges(_fitted(program, stats, scheme), frozenset(read))


def _fitted(program: FloatProgram, stats: CalibrationStats, scheme: FixedPointScheme) -> CalibrationStats:
    if stats.method not in SEARCHES or not stats.histograms:
        return stats
    wide_values = sixteen_bit_values(program)
    bits = {value: 16 if scheme.bits == 16 or value in wide_values else 8 for value in stats.histograms}
    return replace(refit(stats, bits), mse_bits=None)


def _settle(program: FloatProgram, formats: FormatTable, scheme: FixedPointScheme) -> None:
    """Lower fractions until every layer's shift is non-negative; ends because fractions only decrease."""
    changed = True
    while changed:
        changed = False
        tensors = tensors_of(program, formats, scheme)
        for op in program.ops:
            if lowering_of(op).settle(op, formats, tensors, scheme):
                changed = True
                tensors = tensors_of(program, formats, scheme)


def _balance(program: FloatProgram, formats: FormatTable, scheme: FixedPointScheme) -> None:
    """Share what a proof costs between a layer's weights and its input.

    A product of a and b bits fits the accumulator as well as one of a - 1 and b + 1; its noise is least where both
    are about equal. Where the proof takes k bits from the weights, half of them are taken from the input instead.
    """
    tensors = tensors_of(program, formats, scheme)
    wanted: dict[str, int] = {}
    for op in program.ops:
        lowering = lowering_of(op)
        if isinstance(lowering, ConvolutionLowering):
            lost = lowering.bits_lost(op, tensors, scheme)
            source = op.inputs[0]
            if lost >= 2 and formats.group(source).bits == 16 and not formats.group(source).fixed_frac:
                wanted[source] = max(wanted.get(source, lost // 2), lost // 2)
    coarser = {value: formats.format(value).frac - bits for value, bits in wanted.items()}
    for value, frac in coarser.items():
        formats.lower_frac(value, frac)


def _values(program: FloatProgram) -> tuple[str, ...]:
    return (*program.inputs, *(op.output for op in program.ops))


def _program(program: FloatProgram, formats: FormatTable, scheme: FixedPointScheme, name: str) -> Program:
    tensors = tensors_of(program, formats, scheme)
    ops: list[Op] = [lowering_of(op).build(op, tensors, scheme) for op in program.ops]
    used = {value for op in ops for value in (*op.inputs, op.output)}
    return Program(
        name=name,
        tensors={n: t for n, t in tensors.items() if n in used or n in program.inputs},
        ops=tuple(ops),
        inputs=program.inputs,
        outputs=program.outputs,
    )


def unproven(program: Program) -> tuple[Conv2d, ...]:
    """The convolutions whose accumulator could overflow on some input (pinned formats only)."""
    return tuple(op for op in program.ops if isinstance(op, Conv2d) and op.proof == "pinned_unproven")
