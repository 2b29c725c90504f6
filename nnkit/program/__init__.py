"""The Program and its parts."""

from nnkit.program.formats import Affine, Fixed, Float, Format, Pixels
from nnkit.program.ops import (
    Activation,
    Add,
    Concat,
    Conv2d,
    ConvTranspose2d,
    FusedPool,
    Leaky,
    Mul,
    Op,
    OpBase,
    OutputStage,
    Pad,
    Pool,
    Reshape,
    Upsample,
    Window,
)
from nnkit.program.program import Program, Tensor, macs

__all__ = [
    "Activation",
    "Add",
    "Affine",
    "Concat",
    "Conv2d",
    "ConvTranspose2d",
    "Fixed",
    "Float",
    "Format",
    "FusedPool",
    "Leaky",
    "Mul",
    "Op",
    "OpBase",
    "OutputStage",
    "Pad",
    "Pixels",
    "Pool",
    "Program",
    "Reshape",
    "Tensor",
    "Upsample",
    "Window",
    "macs",
]
