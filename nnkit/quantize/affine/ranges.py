"""From observed numbers to affine formats: activations from calibrated histograms, weights from the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.methods import range_of
from nnkit.calibrate.observers import Histogram
from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import ModelError
from nnkit.program.affine import AffineTensor
from nnkit.program.formats import Affine
from nnkit.quantize.affine.scheme import AffineScheme, Bits
from nnkit.quantize.affine.widths import weight_bits
from nnkit.quantize.float_program import FloatConvolution
from nnkit.quantize.used_ranges import UsedRanges

_PINNED = ("table", "formats")
_WEIGHT_CANDIDATES = 100
_SMALLEST_SHARE = 0.3  # of the largest weight: no 8-bit grid with the least squared error lies below


def affine_format(low: float, high: float, *, symmetric: bool, bits: Bits = 8) -> Affine:
    """The format for [low, high], widened to hold zero: signed around zero, or unsigned with a zero point."""
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric:
        return Affine(bits, (max(-low, high) / ((1 << (bits - 1)) - 1) or 1.0,), (0,), signed=True)
    scale = (high - low) / ((1 << bits) - 1) or 1.0
    return Affine(bits, (scale,), (round(-low / scale),), signed=False)


def activation_format(
    stats: CalibrationStats,
    value: str,
    scheme: AffineScheme,
    bits: Bits = 8,
    bounds: tuple[float | None, float | None] = (None, None),
    *,
    is_input: bool = False,
) -> Affine:
    """The format of one value by the scheme's method.

    bounds: what its layer's activation cuts off in any case; headroom does not go beyond.
    is_input: of the network; with 8 bits these have no headroom, which would take pixels off their grid.

    Raises ModelError for a value without calibrated range, or without histogram where the method needs one.
    """
    low, high = _activation_range(stats, value, scheme, bits)
    headroom = scheme.headroom if bits == 16 else 1.0 if is_input else scheme.eight_bit_headroom
    if headroom > 1.0 and not _as_they_are(stats, scheme):
        # A percentile clips on purpose; in 16 bits the other methods end where calibration has seen the last value.
        # An end at zero stays: nothing is beyond it (pixels, what is behind a Relu).
        slack = (headroom - 1.0) * max(-low, high)
        low, high = low - slack if low < 0.0 else low, high + slack if high > 0.0 else high
        low = low if bounds[0] is None else max(low, bounds[0])
        high = high if bounds[1] is None else min(high, bounds[1])
    return affine_format(low, high, symmetric=scheme.symmetric_activations, bits=bits)


def ranges_used(
    stats: CalibrationStats,
    scheme: AffineScheme,
    tensors: Mapping[str, AffineTensor],
    shared: Mapping[str, str] = MappingProxyType({}),
) -> UsedRanges:
    """The ranges behind the formats of a program's tensors, each for its own number of bits, without headroom.

    shared: values that have the format of another one (`nnkit.quantize.affine.build.shared_parts`).
    """
    ranges = dict(stats.ranges)
    read = frozenset(name for name in tensors if name in ranges)
    for name in read:
        low, high = _activation_range(stats, name, scheme, 16 if tensors[name].format.bits == 16 else 8)
        ranges[name] = replace(ranges[name], low=low, high=high)
    for name, whole in shared.items():
        if name in read and whole in read:
            ranges[name] = replace(ranges[name], low=ranges[whole].low, high=ranges[whole].high)
    clips = stats.percentile if stats.method in _PINNED or scheme.activation_method == "percentile" else None
    return UsedRanges(replace(stats, ranges=ranges, percentile=clips, mse_bits=None), read)


def _as_they_are(stats: CalibrationStats, scheme: AffineScheme) -> bool:
    """Whether ranges clip on purpose, or are formats already, so that headroom has no place."""
    if stats.method in _PINNED:
        return stats.method == "formats" or stats.percentile is not None
    return scheme.activation_method == "percentile"


def _activation_range(stats: CalibrationStats, value: str, scheme: AffineScheme, bits: Bits) -> tuple[float, float]:
    if value not in stats.ranges:
        raise ModelError(
            "it has no range: calibration ran another form of this network",
            where=value,
            remedy="calibrate the model that is quantised, as the rewrites left it",
        )
    observed, method, symmetric = stats.ranges[value], scheme.activation_method, scheme.symmetric_activations
    if stats.method in _PINNED:
        return observed.low, observed.high
    if method == "max":
        return observed.observed_low, observed.observed_high
    histogram = stats.histograms.get(value)
    if histogram is None:
        raise ModelError(
            f"the method {method} needs a histogram of this value",
            where=value,
            remedy="calibrate with the method mse or percentile, which keep histograms",
        )
    chosen = range_of(
        histogram,
        method,
        bits=bits,
        signed=symmetric,
        kind="symmetric" if symmetric else "affine",
        percentile=scheme.percentile,
    )
    return chosen.low, chosen.high


def weight_format(
    weight: NDArray[np.float64], channel_axis: int, groups: int, scheme: AffineScheme, bits: Bits = 8
) -> Affine:
    """The signed format of a conv's weights, per channel along `channel_axis` or per tensor.

    A transposed conv with groups repeats its output channels along that axis: it gets one scale per tensor.
    """
    per_channel = scheme.per_channel and not (channel_axis == 1 and groups > 1)
    rows = np.moveaxis(weight, channel_axis, 0).reshape(weight.shape[channel_axis], -1)
    rows = rows if per_channel else rows.reshape(1, -1)
    ends = [_weight_range(row, scheme, bits) for row in rows]
    scales, zeros = [], []
    for low, high in ends:
        if scheme.symmetric_weights:
            scales.append(max(-low, high) / ((1 << (bits - 1)) - 1) or 1.0)
            zeros.append(0)
        else:
            scale = (high - low) / ((1 << bits) - 1) or 1.0
            scales.append(scale)
            zeros.append(round(-low / scale) - (1 << (bits - 1)))
    return Affine(bits, tuple(scales), tuple(zeros), channel_axis if per_channel else None, signed=True)


class WeightFormats:
    """The formats of the weights of one network by one scheme, each found when it is first asked for.

    The search of `mse` takes longer than all else of a build: who quantises one network several times keeps this.
    """

    def __init__(self, scheme: AffineScheme) -> None:
        self.scheme = scheme
        self._found: dict[tuple[str, Bits], Affine] = {}

    def of(self, layer: FloatConvolution, weight: NDArray[np.float64], channel_axis: int) -> Affine:
        """The format of a layer's weights, in the bits that its tags and the scheme give it."""
        key = layer.name, weight_bits(layer, self.scheme)
        if key not in self._found:
            self._found[key] = weight_format(weight, channel_axis, layer.groups, self.scheme, key[1])
        return self._found[key]


def quantized_weight(weight: NDArray[np.float64], form: Affine, *, symmetric: bool) -> NDArray[Any]:
    """Stored weights; symmetric ones leave the format's least integer (-128) out."""
    stored = form.quantize(weight)
    return (np.maximum(stored, -form.qmax) if symmetric else stored).astype(form.dtype)


def _weight_range(row: NDArray[np.float64], scheme: AffineScheme, bits: Bits) -> tuple[float, float]:
    """The range of one scale's weights, zero included."""
    low, high = min(float(row.min(initial=0.0)), 0.0), max(float(row.max(initial=0.0)), 0.0)
    if low == high:
        return low, high
    if scheme.weight_method == "percentile":
        beyond = (100.0 - scheme.percentile) / 2
        return min(float(np.percentile(row, beyond)), 0.0), max(float(np.percentile(row, 100 - beyond)), 0.0)
    if scheme.weight_method == "kl":
        symmetric = scheme.symmetric_weights
        chosen = range_of(
            Histogram().observed(row, "weights"),
            "kl",
            bits=bits,
            signed=symmetric,
            kind="symmetric" if symmetric else "affine",
        )
        return chosen.low, chosen.high
    if scheme.weight_method == "max":
        return low, high
    qmax = (1 << (bits - 1)) - 1
    if scheme.symmetric_weights:
        high = max(-low, high)
        low, qmin, levels = -high, -qmax, 2 * qmax
    else:
        qmin, levels = -qmax - 1, 2 * qmax + 1
    factors = np.linspace(1.0, _SMALLEST_SHARE, _WEIGHT_CANDIDATES)
    steps = (high - low) * factors[:, None] / levels
    zeros = np.rint(-low * factors[:, None] / steps) + qmin
    back = (np.clip(np.rint(row / steps) + zeros, qmin, qmax) - zeros) * steps
    best = float(factors[int(np.argmin(np.square(back - row).sum(axis=1)))])
    return low * best, high * best
