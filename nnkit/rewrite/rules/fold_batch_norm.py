"""Fold batch normalisation into the convolution or fully connected layer next to it.

Pattern: (Conv | ConvTranspose | Gemm | MatMul) -> BatchNormalization, or BatchNormalization -> all of its readers
(Conv, also depthwise and grouped; Gemm; MatMul). The layer before is preferred.
Algebra, with s = gamma / sqrt(var + epsilon) and t = beta - mean * s per channel:
  after:   s * (W x + b) + t = (s W) x + (s b + t)
  before:  W (s x + t) + b = (W s) x + (b + sum_{c,kh,kw} W t)
"before" is exact where no zero padding is read or t = 0. With padding, the padded zeros stand for x = -t/s: when
that is one number for all channels, an explicit Pad with this value goes in front of the convolution, marked as a
part of it; otherwise the rule declines.
Declines also when the result between the two is read elsewhere, or parameters are not constant.
"""

from __future__ import annotations

from nnkit.rewrite.folding import affine_rule

RULE = affine_rule("fold_batch_norm", __doc__ or "", "BatchNormalization")
