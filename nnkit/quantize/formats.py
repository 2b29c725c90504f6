"""Formats of tensors: which values must share one, how wide it is, where its binary point lies.

Values that an op passes through unchanged (max pool, upsample, pad, reshape) and the parts and result of a
concatenation share a format: the alignment shift of the published flow is thereby pushed back into the producing
convolutions. A group's range is the hull of its members' calibrated ranges with headroom.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import InternalError, ModelError, RecipeError
from nnkit.program import Fixed
from nnkit.quantize.integer_bits import fraction_bits
from nnkit.quantize.layers import FloatLayer, FloatLayers
from nnkit.quantize.scheme import FixedPointScheme

_PASS_THROUGH = ("max_pool", "upsample", "pad", "reshape")


@dataclass
class Group:
    """Values of one format while it is being settled; `frac` only ever decreases."""

    members: list[str]
    low: float
    high: float
    bits: int
    signed: bool
    frac: int
    fixed_frac: bool = False

    @property
    def format(self) -> Fixed:
        """The format as settled so far."""
        return Fixed(self.bits, self.frac, self.signed)


@dataclass(frozen=True)
class Range:
    """Real range of one value with headroom and structural bounds applied."""

    low: float
    high: float
    non_negative: bool


class FormatTable:
    """Groups by value name."""

    def __init__(self, groups: dict[str, Group], ranges: dict[str, Range]) -> None:
        self._groups = groups
        self._ranges = ranges

    def group(self, value: str) -> Group:
        """The group of a value."""
        return self._groups[value]

    def format(self, value: str) -> Fixed:
        """The format of a value."""
        return self._groups[value].format

    def integer_range(self, value: str) -> tuple[int, int]:
        """The integers that clipping to the value's range with headroom allows."""
        form, reach = self.format(value), self._ranges[value]
        low = max(form.qmin, form.quantize_scalar(reach.low))
        high = min(form.qmax, form.quantize_scalar(reach.high))
        return min(low, 0), max(high, 0)

    def lower_frac(self, value: str, frac: int) -> bool:
        """Make a group's format coarser. Returns whether anything changed."""
        group = self._groups[value]
        if frac >= group.frac:
            return False
        if group.fixed_frac:
            raise InternalError(f"format of {value!r} is fixed at {group.format} and cannot hold frac {frac}")
        group.frac = frac
        return True


def choose_formats(layers: FloatLayers, stats: CalibrationStats, scheme: FixedPointScheme) -> FormatTable:
    """Ranges, groups, widths and the finest fraction each group allows (accumulators are settled later)."""
    ranges = value_ranges(layers, stats, scheme)
    roots = _union(layers, scheme)
    wide_values = sixteen_bit_values(layers)
    members: dict[str, list[str]] = {}
    for value in ranges:
        members.setdefault(_find(roots, value), []).append(value)
    table: dict[str, Group] = {}
    for names in members.values():
        group = _group(names, ranges, wide_values, layers, scheme)
        table.update(dict.fromkeys(names, group))
    return FormatTable(table, ranges)


def value_ranges(layers: FloatLayers, stats: CalibrationStats, scheme: FixedPointScheme) -> dict[str, Range]:
    """Range of every input and layer output, headroom and activation bounds applied."""
    sixteen = sixteen_bit_values(layers) if scheme.bits == 8 else None

    def headroom(value: str) -> float:
        # Eight bits are limited by resolution, not by unseen values: headroom is for 16-bit tensors. A percentile
        # clips on purpose; the other methods end, in 16 bits, where calibration has seen the last value.
        clips = stats.percentile is not None
        return scheme.headroom if not clips and (sixteen is None or value in sixteen) else 1.0

    ranges: dict[str, Range] = {}
    for name in layers.inputs:
        declared = scheme.input_ranges.get(name)
        if declared is not None:
            ranges[name] = Range(declared.low, declared.high, declared.low >= 0.0)
        else:
            ranges[name] = _with_headroom(stats, name, headroom(name), name)
    for layer in layers.layers:
        ranges[layer.output] = _layer_range(layer, ranges, stats, headroom(layer.output))
    return ranges


def has_own_range(layer: FloatLayer) -> bool:
    """Whether its output's range is calibrated; otherwise it is that of what it moves."""
    return layer.kind not in _PASS_THROUGH and layer.kind != "concat"


def _layer_range(layer: FloatLayer, ranges: dict[str, Range], stats: CalibrationStats, headroom: float) -> Range:
    sources = [ranges[name] for name in layer.inputs]
    if not has_own_range(layer):
        low, high = min(r.low for r in sources), max(r.high for r in sources)
        if layer.kind == "pad":
            low, high = min(low, layer.pad_value), max(high, layer.pad_value)
        return Range(low, high, low >= 0.0 and all(r.non_negative for r in sources))
    found = _with_headroom(stats, layer.range_value, headroom, layer.name)
    low, high, non_negative = found.low, found.high, False
    if layer.kind == "average_pool":
        low, high = max(low, min(sources[0].low, 0.0)), min(high, max(sources[0].high, 0.0))
        non_negative = sources[0].non_negative
    activation = layer.activation
    if activation is not None:
        if activation.low is not None:
            low, high = max(low, activation.low), max(high, activation.low)
        if activation.high is not None:
            low, high = min(low, activation.high), min(high, activation.high)
        non_negative = activation.non_negative
    elif layer.kind in ("add", "mul"):
        non_negative = all(r.non_negative for r in sources)
    if non_negative:
        low, high = 0.0, max(high, 0.0)
    return Range(low, high, non_negative)


def _with_headroom(stats: CalibrationStats, value: str, headroom: float, layer: str) -> Range:
    observed = stats.ranges.get(value)
    if observed is None:
        raise InternalError(f"calibration has no range for value {value!r}", where=layer)
    slack = (headroom - 1.0) * observed.max_abs
    return Range(observed.low - slack, observed.high + slack, False)


def _union(layers: FloatLayers, scheme: FixedPointScheme) -> dict[str, str]:
    roots: dict[str, str] = {}
    published_average = scheme.pinned is not None
    for layer in layers.layers:
        shares = layer.kind in _PASS_THROUGH or (layer.kind == "average_pool" and published_average)
        if layer.kind == "concat" and scheme.pinned is None:
            shares = True
        if shares:
            for name in layer.inputs:
                roots[_find(roots, name)] = _find(roots, layer.output)
    return roots


def _find(roots: dict[str, str], value: str) -> str:
    while value in roots and roots[value] != value:
        value = roots[value]
    return value


def sixteen_bit_values(layers: FloatLayers) -> set[str]:
    """Values that a layer tagged `_hp` reads or writes."""
    return {value for layer in layers.layers if layer.tags.hp for value in (*layer.inputs, layer.output)}


def _group(
    names: list[str], ranges: dict[str, Range], wide_values: set[str], layers: FloatLayers, scheme: FixedPointScheme
) -> Group:
    bits = 16 if any(name in wide_values for name in names) else scheme.bits
    low, high = min(ranges[n].low for n in names), max(ranges[n].high for n in names)
    non_negative = all(ranges[n].non_negative for n in names)
    leaky = any(
        layer.output in names and layer.activation is not None and layer.activation.slopes is not None
        for layer in layers.layers
    )
    unsigned = (
        non_negative
        and not leaky
        and scheme.accumulate == "wide"
        and (scheme.unsigned == "always" or (scheme.unsigned == "auto" and bits == 8))
    )
    pinned = _pinned_frac(names, layers, scheme)
    if pinned is not None:
        return Group(names, low, high, bits, True, pinned, fixed_frac=True)
    if _is_raw_pixels(names, layers, scheme):
        signed = not (unsigned or (bits == 8 and scheme.accumulate == "wide" and low >= 0))
        return Group(names, low, high, 16 if bits == 8 and signed else bits, signed, 0, fixed_frac=True)
    try:
        frac = fraction_bits(low, high, bits, not unsigned)
    except ValueError as error:
        raise ModelError(
            str(error), where=names[0], remedy="scale the network's values down, or run this layer in 16 bits"
        ) from error
    return Group(names, low, high, bits, not unsigned, frac)


def _is_raw_pixels(names: list[str], layers: FloatLayers, scheme: FixedPointScheme) -> bool:
    """A group fed by raw pixels alone keeps them as they are (frac 0): the application then converts nothing."""
    inputs = [name for name in names if name in layers.inputs]
    if not inputs or not all(name in scheme.input_ranges and scheme.input_ranges[name].integral for name in inputs):
        return False
    producers = [layer for layer in layers.layers if layer.output in names]
    return all(layer.kind in _PASS_THROUGH for layer in producers)


def _pinned_frac(names: list[str], layers: FloatLayers, scheme: FixedPointScheme) -> int | None:
    if scheme.pinned is None:
        return None
    found: dict[str, int] = {name: scheme.pinned.input_frac for name in names if name in layers.inputs}
    for layer in layers.layers:
        if layer.output in names and layer.kind in ("conv2d", "conv_transpose2d"):
            entry = scheme.pinned.of((layer.name, *layer.tags.origins))
            found[layer.name] = entry.output_frac
    for layer in layers.layers:
        if layer.kind in ("conv2d", "conv_transpose2d") and layer.inputs[0] in names:
            found[f"input of {layer.name}"] = scheme.pinned.of((layer.name, *layer.tags.origins)).input_frac
    if not found:
        return None
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{name}: {frac}" for name, frac in found.items())
        raise RecipeError(
            f"these must share one format but are pinned to different fraction bits: {listed}",
            where=scheme.pinned.source,
            remedy="pin the producer's output_frac and its readers' input_frac to one number",
        )
    return next(iter(found.values()))
