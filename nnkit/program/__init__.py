"""The Program and its parts."""

from nnkit.program.fixed import (
    Activation,
    Add,
    Concat,
    Conv2d,
    Convolution,
    ConvTranspose2d,
    FusedPool,
    Leaky,
    Lookup,
    Mul,
    Op,
    OutputStage,
    Pad,
    Pool,
    Reshape,
    Slice,
    Transpose,
    Upsample,
)
from nnkit.program.formats import Affine, Fixed, Float, Format, Pixels
from nnkit.program.op import OpBase
from nnkit.program.program import Program, macs
from nnkit.program.tensor import Array, Arrays, Tensor, Tensors
from nnkit.program.watch import OpWatch, Watch
from nnkit.program.window import Window

__all__ = [
    "Activation",
    "Add",
    "Affine",
    "Array",
    "Arrays",
    "Concat",
    "Conv2d",
    "ConvTranspose2d",
    "Convolution",
    "Fixed",
    "Float",
    "Format",
    "FusedPool",
    "Leaky",
    "Lookup",
    "Mul",
    "Op",
    "OpBase",
    "OpWatch",
    "OutputStage",
    "Pad",
    "Pixels",
    "Pool",
    "Program",
    "Reshape",
    "Slice",
    "Tensor",
    "Tensors",
    "Transpose",
    "Upsample",
    "Watch",
    "Window",
    "macs",
]
