"""Affine quantisation: restructured model and calibrated ranges -> AffineProgram."""

from nnkit.calibrate.qdq import read_qdq_ranges
from nnkit.quantize.affine.adaround import AdaRound, RoundingReport
from nnkit.quantize.affine.balance import HEADROOM, Balanced, balance
from nnkit.quantize.affine.equalize import Equalized, equalize
from nnkit.quantize.affine.qdq_export import qdq_model
from nnkit.quantize.affine.qdq_import import QdqNetwork, read_qdq
from nnkit.quantize.affine.quantize import Corrections, float_outputs, keep_better, outputs_of, quantize_affine
from nnkit.quantize.affine.ranges import WeightFormats
from nnkit.quantize.affine.scheme import AffineScheme, RangeMethod

__all__ = [
    "HEADROOM",
    "AdaRound",
    "AffineScheme",
    "Balanced",
    "Corrections",
    "Equalized",
    "QdqNetwork",
    "RangeMethod",
    "RoundingReport",
    "WeightFormats",
    "balance",
    "equalize",
    "float_outputs",
    "keep_better",
    "outputs_of",
    "qdq_model",
    "quantize_affine",
    "read_qdq",
    "read_qdq_ranges",
]
