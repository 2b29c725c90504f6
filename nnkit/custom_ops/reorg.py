"""Reorg (YOLOv2): the reorganisation that Darknet and its Caffe ports compute, with Darknet's own order of values.

Darknet takes the input's memory as a map of P = C / stride^2 channels, H * stride rows and W * stride columns,
whatever its real shape, and gathers blocks of stride x stride from that. Output channel offset * P + p at (j, i) of a
C x H x W map is channel p, row j * stride + offset / stride, column i * stride + offset % stride of the other. The
result is then read as [C * stride^2, H / stride, W / stride]. `reverse` writes where the other reads, and turns
[C, H, W] into [C / stride^2, H * stride, W * stride]. Of the same numbers of channels, rows and columns the two are
inverse permutations; a reverse layer behind a plain one, whose map has other numbers, does not undo it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape, four_dimensional


@dataclass(frozen=True)
class Reorg(CustomOp):
    """Input x [1, C, H, W]; output [1, C * stride^2, H / stride, W / stride], with `reverse` the other way round."""

    op_type: ClassVar[str] = "Reorg"
    inputs: ClassVar[tuple[str, ...]] = ("x",)

    stride: int = 2
    reverse: bool = False

    def __post_init__(self) -> None:
        self.require(self.stride > 0, f"needs a stride above 0, not {self.stride}")

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        channels, height, width = four_dimensional(type(self), input_shapes[0])
        area = self.stride**2
        self.require(channels % area == 0, f"needs channels that {area} divides, not {channels}")
        if self.reverse:
            return ((1, channels // area, height * self.stride, width * self.stride),)
        self.require(
            height % self.stride == 0 and width % self.stride == 0,
            f"needs a map that its stride {self.stride} divides, not {height}x{width}",
        )
        return ((1, channels * area, height // self.stride, width // self.stride),)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        x = np.asarray(arrays[0], np.float32)
        shape = self.output_shapes([x.shape])[0]
        if not self.reverse:
            return (x.reshape(-1)[self._sources(x.shape)].reshape(shape),)
        y = np.empty(x.size, np.float32)
        y[self._sources(x.shape)] = x.reshape(-1)
        return (y.reshape(shape),)

    def _sources(self, shape: Shape) -> NDArray[np.int64]:
        """Which input value each output value is, both in memory order, for an input of `shape`."""
        _, channels, height, width = shape
        stride = self.stride
        part = channels // stride**2
        channel, row, column = np.indices((channels, height, width), dtype=np.int64)
        offset, plane = channel // part, channel % part
        source_row = row * stride + offset // stride
        source_column = column * stride + offset % stride
        sources: NDArray[np.int64] = source_column + width * stride * (source_row + height * stride * plane)
        return sources.reshape(-1)
