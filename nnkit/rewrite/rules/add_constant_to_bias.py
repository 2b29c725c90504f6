"""Add constants to the bias of the layer next to them.

Pattern: (Conv | ConvTranspose | Gemm | MatMul) -> Add or Sub of a constant, or Add or Sub -> all of its readers
(Conv, Gemm, MatMul); the constant is a scalar or one number per channel. (MatMul + Add is how a fully connected
layer is often written.)
Algebra:
  after:   (W x + b) + t = W x + (b + t);  t - (W x + b) = (-W) x + (t - b)
  before:  W (x + t) + b = W x + (b + sum_{c,kh,kw} W t), where no zero padding is read; with padding as in
           fold_batch_norm: through an explicit Pad with -t when t is one number, else it declines
Declines when the result between the two is read elsewhere, or the constant differs within a channel.
"""

from __future__ import annotations

from nnkit.rewrite.folding import affine_rule

RULE = affine_rule("add_constant_to_bias", __doc__ or "", "Add", "Sub")
