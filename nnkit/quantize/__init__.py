"""Quantisation: restructured model and calibrated ranges -> Program."""

from nnkit.quantize.fixed_point import quantize, ranges_used, unproven
from nnkit.quantize.pinned import PinnedFormats, PinnedLayer, read_pinned_formats
from nnkit.quantize.scheme import FixedPointScheme

__all__ = [
    "FixedPointScheme",
    "PinnedFormats",
    "PinnedLayer",
    "quantize",
    "ranges_used",
    "read_pinned_formats",
    "unproven",
]
