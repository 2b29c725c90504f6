"""Affine 8-bit quantisation: restructured model and calibrated ranges -> AffineProgram."""

from nnkit.quantize.affine.quantize import float_outputs, outputs_of, quantize_affine
from nnkit.quantize.affine.scheme import AffineScheme, RangeMethod

__all__ = ["AffineScheme", "RangeMethod", "float_outputs", "outputs_of", "quantize_affine"]
