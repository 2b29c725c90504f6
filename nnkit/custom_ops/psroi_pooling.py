"""PSROIPooling (R-FCN): position-sensitive average pooling; each bin of a region reads a channel of its own.

Corners are rounded half away from zero, then multiplied by spatial_scale; the far corner is rounded + 1. The region
is at least 0.1 a side and has group_size x group_size bins. Bin (i, j) of output channel c is the mean over its
pixels of input channel (c * group_size + i) * group_size + j. An empty bin, and every bin of a region whose batch
index is not 0 (an unused row), is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape, four_dimensional
from nnkit.custom_ops.roi_pooling import limited, region_count, rounded


@dataclass(frozen=True)
class PSROIPooling(CustomOp):
    """Inputs x [1, output_dim * group_size^2, H, W], rois [R, 5]. Output [R, output_dim, group_size, group_size]."""

    op_type: ClassVar[str] = "PSROIPooling"
    inputs: ClassVar[tuple[str, ...]] = ("x", "rois")

    output_dim: int
    group_size: int
    spatial_scale: float = 1.0

    def __post_init__(self) -> None:
        self.require(self.output_dim > 0 and self.group_size > 0, "needs output_dim and group_size above 0")
        self.require(self.spatial_scale > 0, f"needs spatial_scale above 0, not {self.spatial_scale}")

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        channels, _, _ = four_dimensional(type(self), input_shapes[0])
        expected = self.output_dim * self.group_size**2
        self.require(channels == expected, f"needs {expected} channels, not {channels}")
        return ((region_count(type(self), input_shapes[1]), self.output_dim, self.group_size, self.group_size),)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        y = np.zeros(self.output_shapes([array.shape for array in arrays])[0], np.float32)
        x = np.asarray(arrays[0], np.float32)[0]
        maps = x.reshape(self.output_dim, self.group_size, self.group_size, *x.shape[1:])
        for region, roi in enumerate(np.asarray(arrays[1], np.float32).reshape(-1, 5)):
            if roi[0] != 0:
                continue
            rows = self._bins(roi[2], roi[4], x.shape[1])
            columns = self._bins(roi[1], roi[3], x.shape[2])
            for i, (top, bottom) in enumerate(rows):
                for j, (left, right) in enumerate(columns):
                    if top < bottom and left < right:
                        y[region, :, i, j] = maps[:, i, j, top:bottom, left:right].mean(axis=(1, 2))
        return (y,)

    def _bins(self, low: np.float32, high: np.float32, limit: int) -> list[tuple[int, int]]:
        """[start, end) of each bin along one side, within 0..limit."""
        scale = np.float32(self.spatial_scale)
        with np.errstate(invalid="ignore", over="ignore"):
            start = rounded(low) * scale
            end = (rounded(high) + np.float32(1)) * scale
            size = np.fmax(end - start, np.float32(0.1)) / np.float32(self.group_size)
            return [
                (
                    limited(np.floor(np.float32(i) * size + start), limit),
                    limited(np.ceil(np.float32(i + 1) * size + start), limit),
                )
                for i in range(self.group_size)
            ]
