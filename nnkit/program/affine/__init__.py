"""The affine integer program: ops over 8- and 16-bit tensors with scale and zero point, and their exact arithmetic.

Conventions (one definition for the simulator and every export):

* Tensors have no batch axis: [C, H, W] or [F]. Stored integers q mean (q - zero_point) * scale.
* RQ(x, m, s) = (x * m + 2^(s-1)) >> s: multiplier and shift with a *single* rounding, half toward +infinity; m is an
  int32, 1 <= s <= 62. A real factor f becomes m = round(f * 2^s) with |m| in [2^30, 2^31).
* Accumulators are proven, per output channel and sign-split over the weights: with x - zx in [lo, hi] the sums lie in
  [sum_{w>0} w*lo + sum_{w<0} w*hi, sum_{w>0} w*hi + sum_{w<0} w*lo] + bias. With 8-bit operands they are int32 and
  the product in RQ has 64 bits. With a 16-bit operand they are int32 where that is proven, else int64 (an op says
  which); RQ is then still exact, in a product of 94 bits.
* Bits are those of each tensor: an op reads and writes tensors of either width, and its RQ is the seam between them.
* Every op that computes ends in v = clamp(RQ(acc, m, s) + zero point of the output, clip_min, clip_max).
* With `negative_multiplier` (leaky slopes) a negative accumulator takes that multiplier instead of m: still one
  rounding, slope included.
"""

from nnkit.program.affine.concat import AffineConcat
from nnkit.program.affine.conv import AffineConv
from nnkit.program.affine.elementwise import AffineActivation, AffineAdd, AffineMul
from nnkit.program.affine.embedding import AffineEmbedding
from nnkit.program.affine.log_softmax import AffineLogSoftmax
from nnkit.program.affine.lookup import AffineLookup
from nnkit.program.affine.move import AffineMove
from nnkit.program.affine.onnx_op import AffineOnnx
from nnkit.program.affine.op import AffineOpBase, AffineTensor
from nnkit.program.affine.pool import AffinePool
from nnkit.program.affine.program import AffineOp, AffineProgram
from nnkit.program.affine.requantize import Requantize, rounded_product
from nnkit.program.affine.rows import AffineMatMul, AffineNormalizeRows
from nnkit.program.affine.softmax import AffineSoftmax

__all__ = [
    "AffineActivation",
    "AffineAdd",
    "AffineConcat",
    "AffineConv",
    "AffineEmbedding",
    "AffineLogSoftmax",
    "AffineLookup",
    "AffineMatMul",
    "AffineMove",
    "AffineMul",
    "AffineNormalizeRows",
    "AffineOnnx",
    "AffineOp",
    "AffineOpBase",
    "AffinePool",
    "AffineProgram",
    "AffineSoftmax",
    "AffineTensor",
    "IntArray",
    "Requantize",
    "rounded_product",
]
