"""Between precisions: what the chip does with a value that one op stores in one format and the next reads in another.

Real values become integers by a product with 1 / scale, in the precision of the values: 1 / scale and the product are
both rounded to it, the product then to the nearest integer; halves go away from zero on the BM chips, to even on the
cv18xx. Integers become F16 or BF16 by a product with the scale rounded to that precision. Such a factor is a float32
first, of which F16 is made with halves away from zero. Of float32 that the cv18xx are given for BF16 the lower bits
are cut off. Pixels become an INT8 network's integers by a table for each channel; in floating point they are
multiplied by the scale, rounded to the network's precision, and -mean * scale is added in float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.program.formats import Affine, Float, Pixels
from nnkit_tpu.arithmetic import pixel_tables, round_half_away
from nnkit_tpu.program import Cast, Mode

Values = NDArray[Any]


def rounded(values: Values, mode: Mode) -> Values:
    """Real values in the precision of `mode`, half to even."""
    if mode == "F16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16)
    single = values.astype(np.float32)
    if mode != "BF16":
        return single
    bits = single.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def cut_off(values: Values) -> Values:
    """Real values in BF16, without their lower bits."""
    return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def factor_in(value: float, mode: Mode) -> float:
    """A positive factor as a chip is given it in the precision of `mode`: a float32 first, its halves in F16 go up.

    Measured on the chip models of bm1684x, bm1688 and cv181x, with factors that lie between two numbers.
    """
    single = np.float32(value)
    if mode != "F16":
        return float(rounded(np.array([single]), mode)[0])
    with np.errstate(over="ignore"):
        nearest = np.float16(single)
        above = np.nextafter(nearest, np.float16(np.inf))
    if not np.isfinite(nearest):
        return float(nearest)
    return float(above if float(single) - float(nearest) == float(above) - float(single) else nearest)


def becomes_integers(target: Affine, mode: Mode) -> bool:
    """Whether real values in the precision of `mode` can become these: below 1 / 65504, F16 has no factor."""
    return math.isfinite(factor_in(1.0 / target.scale[0], mode))


def cast(values: Values, how: Cast, mode: Mode) -> Values:
    """Stored values in the format that an op of `mode` computes in."""
    source, target = how.source, how.target
    if isinstance(source, Pixels):
        return _preprocessed(values, source, how, mode)
    if isinstance(target, Float):
        if isinstance(source, Float):
            return cut_off(values) if how.rounding == "cut_off" else rounded(values, mode)
        if isinstance(source, Affine) and mode in ("F16", "BF16"):
            return rounded(rounded(values, mode).astype(np.float64) * factor_in(source.scale[0], mode), mode)
        return rounded(np.asarray(source.dequantize(values)), mode)
    if isinstance(target, Affine) and isinstance(source, Float):
        factor = factor_in(1.0 / target.scale[0], how.precision)
        product = rounded(values.astype(np.float64) * factor, how.precision).astype(np.float64)
        whole = np.rint(product) if how.rounding == "half_even" else round_half_away(product)
        return np.clip(whole + target.zero_point[0], target.qmin, target.qmax).astype(np.int64)
    return values


def _preprocessed(pixels: Values, source: Pixels, how: Cast, mode: Mode) -> Values:
    """Pixels [1, C, H, W] in the format that an op of `mode` computes in."""
    stored = how.via or how.target
    if isinstance(stored, Affine):
        channel = np.arange(pixels.shape[1]).reshape(-1, 1, 1)
        integers = pixel_tables(source, stored)[channel, pixels]
        return integers if how.via is None else cast(integers, Cast(stored, how.target), mode)
    scale = rounded(np.array(source.scale), mode).astype(np.float64)
    offset = -(np.array(source.mean) * np.array(source.scale)).astype(np.float32).astype(np.float64)
    return rounded(pixels * scale.reshape(-1, 1, 1) + offset.reshape(-1, 1, 1), mode)
