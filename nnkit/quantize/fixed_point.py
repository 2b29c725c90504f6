"""The power-of-two fixed-point quantiser: float layers + ranges -> Program.

Sources: the published GAP8 quantiser for fraction bits and norm; the accumulator proofs are ours
(`nnkit.quantize.proof`) and replace the published overflow guard, which bounds the output but not the sums.
"""

from __future__ import annotations

from dataclasses import replace

from nnkit.calibrate.methods import SEARCHES, refit
from nnkit.calibrate.stats import CalibrationStats
from nnkit.graph import Model
from nnkit.program import Op, Program, Tensor
from nnkit.program.ops import Conv2d
from nnkit.quantize.conv_weights import choose_weights
from nnkit.quantize.formats import FormatTable, choose_formats, has_own_range, sixteen_bit_values
from nnkit.quantize.layers import FloatLayers
from nnkit.quantize.lowering import lower
from nnkit.quantize.op_builders import build_op, settle_layer
from nnkit.quantize.rounding_bias import without_rounding_bias
from nnkit.quantize.scheme import FixedPointScheme
from nnkit.quantize.used_ranges import UsedRanges


def quantize(model: Model, stats: CalibrationStats, scheme: FixedPointScheme, *, name: str = "network") -> Program:
    """Restructured model + calibrated ranges -> Program with explicit formats and integer weights.

    Raises ModelError for layers that cannot be deployed (all at once) or ranges that fit no format, RecipeError
    for pinned formats that are missing or contradict each other.
    """
    layers = lower(model)
    stats = _fitted(layers, stats, scheme)
    formats = choose_formats(layers, stats, scheme)
    _settle(layers, formats, scheme)
    if scheme.pinned is None and scheme.accumulator_bits == 32 and scheme.accumulate == "wide":
        _balance(layers, formats, scheme)
        _settle(layers, formats, scheme)
    if scheme.pinned is None and scheme.accumulate == "wide":
        layers = without_rounding_bias(layers, {value: formats.format(value) for value in _values(layers)})
        _settle(layers, formats, scheme)
    return _program(layers, formats, scheme, name)


def ranges_used(model: Model, stats: CalibrationStats, scheme: FixedPointScheme) -> UsedRanges:
    """The ranges that `quantize` takes for this model: each value's for its own number of bits, without headroom."""
    layers = lower(model)
    declared = scheme.input_ranges
    read = [name for name in layers.inputs if name not in declared]
    read += [layer.range_value for layer in layers.layers if has_own_range(layer)]
    return UsedRanges(_fitted(layers, stats, scheme), frozenset(read))


def _fitted(layers: FloatLayers, stats: CalibrationStats, scheme: FixedPointScheme) -> CalibrationStats:
    if stats.method not in SEARCHES or not stats.histograms:
        return stats
    wide_values = sixteen_bit_values(layers)
    bits = {value: 16 if scheme.bits == 16 or value in wide_values else 8 for value in stats.histograms}
    return replace(refit(stats, bits), mse_bits=None)


def _settle(layers: FloatLayers, formats: FormatTable, scheme: FixedPointScheme) -> None:
    """Lower fractions until every layer's shift is non-negative; ends because fractions only decrease."""
    changed = True
    while changed:
        changed = False
        tensors = _tensors(layers, formats, scheme)
        for layer in layers.layers:
            if settle_layer(layer, formats, tensors, scheme):
                changed = True
                tensors = _tensors(layers, formats, scheme)


def _balance(layers: FloatLayers, formats: FormatTable, scheme: FixedPointScheme) -> None:
    """Share what a proof costs between a layer's weights and its input.

    A product of a and b bits fits the accumulator as well as one of a - 1 and b + 1; its noise is least where both
    are about equal. Where the proof takes k bits from the weights, half of them are taken from the input instead.
    """
    tensors = _tensors(layers, formats, scheme)
    wanted: dict[str, int] = {}
    for layer in layers.layers:
        if layer.kind in ("conv2d", "conv_transpose2d"):
            lost = choose_weights(layer, tensors, scheme).bits_lost
            source = layer.inputs[0]
            if lost >= 2 and formats.group(source).bits == 16 and not formats.group(source).fixed_frac:
                wanted[source] = max(wanted.get(source, lost // 2), lost // 2)
    coarser = {value: formats.format(value).frac - bits for value, bits in wanted.items()}
    for value, frac in coarser.items():
        formats.lower_frac(value, frac)


def _values(layers: FloatLayers) -> tuple[str, ...]:
    return (*layers.inputs, *(layer.output for layer in layers.layers))


def _tensors(layers: FloatLayers, formats: FormatTable, scheme: FixedPointScheme) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    outputs = {layer.output: layer for layer in layers.layers}
    for value in (*layers.inputs, *outputs):
        form = formats.format(value)
        low, high = formats.integer_range(value)
        if scheme.pinned is not None and value in outputs:
            low, high = form.qmin, form.qmax
            activation = outputs[value].activation
            if activation is not None and activation.low is not None:
                low = form.quantize_scalar(activation.low)
            if activation is not None and activation.high is not None:
                high = form.quantize_scalar(activation.high)
        tensors[value] = Tensor(value, layers.shapes[value], form, low, high)
    return tensors


def _program(layers: FloatLayers, formats: FormatTable, scheme: FixedPointScheme, name: str) -> Program:
    tensors = _tensors(layers, formats, scheme)
    ops: list[Op] = [build_op(layer, tensors, scheme) for layer in layers.layers]
    used = {value for op in ops for value in (*op.inputs, op.output)}
    return Program(
        name=name,
        tensors={n: t for n, t in tensors.items() if n in used or n in layers.inputs},
        ops=tuple(ops),
        inputs=layers.inputs,
        outputs=layers.outputs,
    )


def unproven(program: Program) -> tuple[Conv2d, ...]:
    """The convolutions whose accumulator could overflow on some input (pinned formats only)."""
    return tuple(op for op in program.ops if isinstance(op, Conv2d) and op.proof == "pinned_unproven")
