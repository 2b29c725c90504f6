"""From observed numbers to affine formats: activations from calibrated histograms, weights from the weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.calibrate.observers import Histogram
from nnkit.calibrate.ranges import mse_range, percentile_range
from nnkit.calibrate.stats import CalibrationStats
from nnkit.errors import ModelError
from nnkit.program.formats import Affine
from nnkit.quantize.affine.scheme import AffineScheme, RangeMethod

_WEIGHT_CANDIDATES = 100
_SMALLEST_SHARE = 0.3  # of the largest weight: no 8-bit grid with the least squared error lies below


def affine_format(low: float, high: float, *, symmetric: bool) -> Affine:
    """The 8-bit format for [low, high], which is widened to hold zero: s8 around zero, or u8 with a zero point."""
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric:
        return Affine(8, (max(-low, high) / 127 or 1.0,), (0,), signed=True)
    scale = (high - low) / 255 or 1.0
    return Affine(8, (scale,), (round(-low / scale),), signed=False)


def activation_format(stats: CalibrationStats, value: str, scheme: AffineScheme) -> Affine:
    """The format of one value by the scheme's method.

    Raises ModelError for a value without calibrated range, or without histogram where the method needs one.
    """
    if value not in stats.ranges:
        raise ModelError("no calibrated range", where=value, remedy="calibrate this model again")
    found, method, symmetric = stats.ranges[value], scheme.activation_method, scheme.symmetric_activations
    if stats.method == "table":
        return affine_format(found.low, found.high, symmetric=symmetric)
    if method == "max":
        return affine_format(found.observed_low, found.observed_high, symmetric=symmetric)
    histogram = stats.histograms.get(value)
    if histogram is None:
        raise ModelError(
            f"the method {method} needs a histogram of this value",
            where=value,
            remedy="calibrate with the method mse or percentile, which keep histograms",
        )
    low, high = _histogram_range(histogram, method, scheme.percentile, symmetric=symmetric)
    return affine_format(low, high, symmetric=symmetric)


def _histogram_range(
    histogram: Histogram, method: RangeMethod, percentile: float, *, symmetric: bool
) -> tuple[float, float]:
    if method == "percentile":
        chosen = percentile_range(histogram, percentile)
    elif method == "mse":
        chosen = mse_range(histogram, 8, signed=symmetric, kind="symmetric" if symmetric else "affine")
    else:
        return kl_range(histogram, symmetric=symmetric)
    return chosen.low, chosen.high


def kl_range(histogram: Histogram, *, symmetric: bool, levels: int = 256) -> tuple[float, float]:
    """The range whose 256 levels keep the distribution best, by Kullback-Leibler divergence KL(P || Q).

    Zeros do not count: every format holds them exactly, and their one bin would outweigh the shape of the rest.

    P: the histogram's 4,096 bins (2,048 a side) cut to a candidate range, what lies beyond in its end bins. Q: the
    bins inside the range *without* what lies beyond, their mass merged into the levels that rounding gives and spread
    evenly over the bins of a level that P fills. A range with fewer bins than levels is no candidate: each level
    would hold one bin, and the divergence would vanish for no reason.
    Source: Migacz, "8-bit inference with TensorRT", 2017.
    """
    extremes = histogram.extremes
    if extremes.count == 0 or extremes.low == extremes.high == 0.0:
        return 0.0, 0.0
    low, high = min(extremes.low, 0.0), max(extremes.high, 0.0)
    if symmetric:
        high = max(-low, high)
        low = -high
    counts, edges = histogram.counts.astype(np.float64), histogram.edges
    centres = (edges[:-1] + edges[1:]) / 2
    best, best_range = np.inf, (low, high)
    factor = 1.0
    while factor * (high - low) >= levels * histogram.width:
        divergence = _divergence(counts, centres, low * factor, high * factor, levels)
        if divergence < best:
            best, best_range = divergence, (low * factor, high * factor)
        factor *= 0.98
    return best_range


def _divergence(
    counts: NDArray[np.float64], centres: NDArray[np.float64], low: float, high: float, levels: int
) -> float:
    inside = np.flatnonzero((centres >= low) & (centres <= high))
    if inside.size == 0:
        return float("inf")
    kept = counts[inside]
    p = kept.copy()
    p[0] += counts[: inside[0]].sum()
    p[-1] += counts[inside[-1] + 1 :].sum()
    if kept.sum() == 0.0:
        return float("inf")
    level = np.clip(np.rint((centres[inside] - low) / (high - low) * (levels - 1)), 0, levels - 1).astype(np.intp)
    mass = np.bincount(level, weights=kept, minlength=levels)
    filled = np.bincount(level, weights=(p > 0).astype(np.float64), minlength=levels)
    q = np.where(p > 0, mass[level] / np.maximum(filled[level], 1.0), 0.0)
    p, q = p / p.sum(), q / q.sum()
    some = p > 0
    # An end bin may hold clipped numbers alone: q is 0 there. 2^-40 stands for it, the usual smoothing.
    return float(np.sum(p[some] * np.log(p[some] / np.maximum(q[some], 2.0**-40))))


def weight_format(weight: NDArray[np.float64], channel_axis: int, groups: int, scheme: AffineScheme) -> Affine:
    """The s8 format of a conv's weights, per channel along `channel_axis` or per tensor.

    A transposed conv with groups repeats its output channels along that axis: it gets one scale per tensor.
    """
    per_channel = scheme.per_channel and not (channel_axis == 1 and groups > 1)
    rows = np.moveaxis(weight, channel_axis, 0).reshape(weight.shape[channel_axis], -1)
    rows = rows if per_channel else rows.reshape(1, -1)
    ends = [_weight_range(row, scheme) for row in rows]
    scales, zeros = [], []
    for low, high in ends:
        if scheme.symmetric_weights:
            scales.append(max(-low, high) / 127 or 1.0)
            zeros.append(0)
        else:
            scale = (high - low) / 255 or 1.0
            scales.append(scale)
            zeros.append(round(-low / scale) - 128)
    return Affine(8, tuple(scales), tuple(zeros), channel_axis if per_channel else None, signed=True)


def quantized_weight(weight: NDArray[np.float64], form: Affine, *, symmetric: bool) -> NDArray[np.int8]:
    """Stored weights; symmetric ones stay within [-127, 127]."""
    stored = form.quantize(weight)
    return (np.maximum(stored, -127) if symmetric else stored).astype(np.int8)


def _weight_range(row: NDArray[np.float64], scheme: AffineScheme) -> tuple[float, float]:
    """The range of one scale's weights, zero included."""
    low, high = min(float(row.min(initial=0.0)), 0.0), max(float(row.max(initial=0.0)), 0.0)
    if low == high:
        return low, high
    if scheme.weight_method == "percentile":
        beyond = (100.0 - scheme.percentile) / 2
        return min(float(np.percentile(row, beyond)), 0.0), max(float(np.percentile(row, 100 - beyond)), 0.0)
    if scheme.weight_method == "kl":
        return kl_range(Histogram().observed(row, "weights"), symmetric=scheme.symmetric_weights)
    if scheme.weight_method == "max":
        return low, high
    if scheme.symmetric_weights:
        high = max(-low, high)
        low, qmin, qmax, levels = -high, -127, 127, 254
    else:
        qmin, qmax, levels = -128, 127, 255
    factors = np.linspace(1.0, _SMALLEST_SHARE, _WEIGHT_CANDIDATES)
    steps = (high - low) * factors[:, None] / levels
    zeros = np.rint(-low * factors[:, None] / steps) + qmin
    back = (np.clip(np.rint(row / steps) + zeros, qmin, qmax) - zeros) * steps
    best = float(factors[int(np.argmin(np.square(back - row).sum(axis=1)))])
    return low * best, high * best
