"""Fold a multiplication or division by constants into the layer next to it.

Pattern: (Conv | ConvTranspose | Gemm | MatMul) -> Mul or Div by a constant, or Mul or Div -> all of its readers
(Conv, ConvTranspose, Gemm, MatMul); the constant is a scalar or one number per channel.
Algebra:
  after:   s * (W x + b) = (s W) x + s b
  before:  W (s x) + b = (W s) x + b; padded zeros stay zeros, so padding does not matter
Declines when the result between the two is read elsewhere, or the constant differs within a channel.
"""

from __future__ import annotations

from nnkit.rewrite.folding import affine_rule

RULE = affine_rule("fold_scale", __doc__ or "", "Mul", "Div")
