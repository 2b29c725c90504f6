"""Power-of-two fixed point: the ops, an op a file, each with its exact integer semantics.

Conventions (shared by every generated kernel):

* Tensors have no batch axis: [C, H, W] or [F]. Weights are OIHW.
* NORM(x, n) = (x + 2^(n-1)) >> n for n > 0, x for n = 0: arithmetic shift, half toward +infinity.
* Every op that adds or multiplies ends in the same *output stage*: v = NORM(acc, shift);
  v = clamp(v, storage range of the output); if leaky (signed storage only):
  v < 0 -> NORM(v * slope, slope_shift), clamp to storage; then clamp(v, clip_min, clip_max).
* A fused pool sees the values after the output stage.
* An `int32` accumulator wraps modulo 2^32 (defined behaviour, in C through unsigned arithmetic); an op whose
  `proof` is `proven` never does, and the simulator counts wraps for the others. The rounding constant
  2^(n-1) is added in the accumulator's width.
"""

from typing import TypeAlias

from nnkit.program.fixed.activation import Activation
from nnkit.program.fixed.add import Add
from nnkit.program.fixed.concat import Concat
from nnkit.program.fixed.conv2d import Conv2d
from nnkit.program.fixed.conv_transpose2d import ConvTranspose2d
from nnkit.program.fixed.convolution import Convolution
from nnkit.program.fixed.embedding import Embedding
from nnkit.program.fixed.join_rows import JoinRows
from nnkit.program.fixed.log_softmax import LogSoftmax
from nnkit.program.fixed.lookup import Lookup
from nnkit.program.fixed.matmul import MatMul
from nnkit.program.fixed.mul import Mul
from nnkit.program.fixed.normalize_rows import NormalizeRows
from nnkit.program.fixed.output_stage import Leaky, OutputStage
from nnkit.program.fixed.pad import Pad
from nnkit.program.fixed.pool import FusedPool, Pool
from nnkit.program.fixed.reshape import Reshape
from nnkit.program.fixed.slice import Slice
from nnkit.program.fixed.softmax import Softmax
from nnkit.program.fixed.transpose import Transpose
from nnkit.program.fixed.upsample import Upsample

Op: TypeAlias = (
    Conv2d
    | ConvTranspose2d
    | Pool
    | Add
    | Mul
    | Activation
    | Lookup
    | Concat
    | Upsample
    | Pad
    | Reshape
    | Slice
    | Transpose
    | Softmax
    | LogSoftmax
    | Embedding
    | NormalizeRows
    | MatMul
    | JoinRows
)

__all__ = [
    "Activation",
    "Add",
    "Concat",
    "Conv2d",
    "ConvTranspose2d",
    "Convolution",
    "Embedding",
    "FusedPool",
    "JoinRows",
    "Leaky",
    "LogSoftmax",
    "Lookup",
    "MatMul",
    "Mul",
    "NormalizeRows",
    "Op",
    "OutputStage",
    "Pad",
    "Pool",
    "Reshape",
    "Slice",
    "Softmax",
    "Transpose",
    "Upsample",
]
