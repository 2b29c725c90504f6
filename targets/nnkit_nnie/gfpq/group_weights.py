"""Weights in GFPQ as the mapper stores them: a scale for each group of a layer, hence for each channel of a depthwise
one. A layer without groups has one scale.

Groups divide the first axis of the weights, in a convolution ([O, I / groups, kh, kw]) and in a deconvolution
([I, O / groups, kh, kw]) alike.

Source: networks that the vendor's mapper compiled; it divides a layer of groups into one layer for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit_nnie.gfpq.number_format import Gfpq, GfpqBits


def group_scales(weight: NDArray[np.float64], groups: int, bits: GfpqBits) -> tuple[Gfpq, ...]:
    """The format of each group of real weights. Raises ValueError where a weight is not finite."""
    largest = np.abs(weight.reshape(groups, -1)).max(axis=1, initial=0.0)
    return tuple(Gfpq.for_magnitude(bits, float(each)) for each in largest)


def quantize_groups(weight: NDArray[np.float64], scales: Sequence[Gfpq]) -> NDArray[Any]:
    """Real weights to codes of the same shape."""
    parts = np.split(weight, len(scales))
    return np.concatenate([scale.quantize(part) for scale, part in zip(scales, parts, strict=True)])


def dequantize_groups(codes: NDArray[Any], scales: Sequence[Gfpq]) -> NDArray[np.float64]:
    """Codes to real weights of the same shape."""
    parts = np.split(codes, len(scales))
    return np.concatenate([scale.dequantize(part) for scale, part in zip(scales, parts, strict=True)])


def scales_in_words(scales: Sequence[Gfpq]) -> str:
    """The formats as reports name them: `gfpq8 z -124`, or `gfpq8 z -150 to -97 in 32 groups`."""
    lowest, highest = min(scale.z for scale in scales), max(scale.z for scale in scales)
    if len(scales) == 1:
        return str(scales[0])
    span = str(lowest) if lowest == highest else f"{lowest} to {highest}"
    return f"gfpq{scales[0].bits} z {span} in {len(scales)} groups"
