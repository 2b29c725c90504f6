"""PassThrough: blocks of positions become channels, as ONNX's SpaceToDepth, with blocks that need not be square.

Output channel (dy * block_width + dx) * C + c at (i, j) is input channel c at (i * block_height + dy,
j * block_width + dx).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape, four_dimensional


@dataclass(frozen=True)
class PassThrough(CustomOp):
    """Input x [1, C, H, W]; output [1, C * block_height * block_width, H / block_height, W / block_width].

    num_output: number of output channels as the layer states it, checked; 0: not stated.
    """

    op_type: ClassVar[str] = "PassThrough"
    inputs: ClassVar[tuple[str, ...]] = ("x",)

    block_height: int
    block_width: int
    num_output: int = 0

    def __post_init__(self) -> None:
        self.require(self.block_height > 0 and self.block_width > 0, "needs block_height and block_width above 0")
        self.require(self.num_output >= 0, f"cannot have a negative num_output ({self.num_output})")

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        channels, height, width = four_dimensional(type(self), input_shapes[0])
        self.require(
            height % self.block_height == 0 and width % self.block_width == 0,
            f"needs a map that its block {self.block_height}x{self.block_width} divides, not {height}x{width}",
        )
        outputs = channels * self.block_height * self.block_width
        self.require(self.num_output in (0, outputs), f"gives {outputs} channels, not num_output {self.num_output}")
        return ((1, outputs, height // self.block_height, width // self.block_width),)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        shape = self.output_shapes([arrays[0].shape])[0]
        x = np.asarray(arrays[0], np.float32)
        blocks = x.reshape(x.shape[1], shape[2], self.block_height, shape[3], self.block_width)
        return (np.ascontiguousarray(blocks.transpose(2, 4, 0, 1, 3)).reshape(shape),)
