"""Normalize (SSD): every position's channels, or the whole map, divided by their L2 norm and scaled.

    y = scale * x / sqrt(sum(x^2) + eps)

The sum runs over the channels of a position, or over channels and positions (`across_spatial`). This is the layer of
the SSD branch of Caffe; hardware that has it may fix eps, at 1e-10 say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape, four_dimensional


@dataclass(frozen=True)
class Normalize(CustomOp):
    """Inputs x [1, C, H, W] and scale, [1] with `channel_shared`, else [C]; without scale it is 1."""

    op_type: ClassVar[str] = "Normalize"
    inputs: ClassVar[tuple[str, ...]] = ("x", "scale")
    optional_inputs: ClassVar[int] = 1

    across_spatial: bool = True
    channel_shared: bool = True
    eps: float = 1e-10

    def __post_init__(self) -> None:
        self.require(self.eps >= 0, f"cannot have a negative eps ({self.eps})")

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        channels, _, _ = four_dimensional(type(self), input_shapes[0])
        if len(input_shapes) > 1:
            expected = 1 if self.channel_shared else channels
            size = int(np.prod(input_shapes[1]))
            self.require(size == expected, f"needs {expected} scale values, not {size}")
        return (tuple(input_shapes[0]),)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        self.output_shapes([array.shape for array in arrays])
        x = np.asarray(arrays[0], np.float32)
        axes = (1, 2, 3) if self.across_spatial else (1,)
        norm = np.sqrt(np.sum(x * x, axis=axes, keepdims=True) + np.float32(self.eps))
        # Zeros stay zeros where eps is 0.
        y = np.divide(x, norm, out=np.zeros_like(x), where=norm > 0)
        if len(arrays) > 1:
            y = y * np.asarray(arrays[1], np.float32).reshape(1, -1, 1, 1)
        return (np.ascontiguousarray(y, np.float32),)
