"""ROIPooling (Fast R-CNN): the maximum of every bin of a region of interest.

Corners are multiplied by spatial_scale and rounded half away from zero; a region has at least one pixel a side, both
corners included. Bin i of n covers floor(i * side / n) .. ceil((i + 1) * side / n) - 1, cut to the map. An empty bin,
and every bin of a region whose batch index is not 0 (an unused row), is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape, four_dimensional


@dataclass(frozen=True)
class ROIPooling(CustomOp):
    """Inputs x [1, C, H, W], rois [R, 5] (batch index, x_min, y_min, x_max, y_max).

    Output [R, C, pooled_h, pooled_w].
    """

    op_type: ClassVar[str] = "ROIPooling"
    inputs: ClassVar[tuple[str, ...]] = ("x", "rois")

    pooled_h: int
    pooled_w: int
    spatial_scale: float = 1.0

    def __post_init__(self) -> None:
        self.require(self.pooled_h > 0 and self.pooled_w > 0, "needs pooled_h and pooled_w above 0")
        self.require(self.spatial_scale > 0, f"needs spatial_scale above 0, not {self.spatial_scale}")

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        channels, _, _ = four_dimensional(type(self), input_shapes[0])
        return ((region_count(type(self), input_shapes[1]), channels, self.pooled_h, self.pooled_w),)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        y = np.zeros(self.output_shapes([array.shape for array in arrays])[0], np.float32)
        x = np.asarray(arrays[0], np.float32)[0]
        for region, roi in enumerate(np.asarray(arrays[1], np.float32).reshape(-1, 5)):
            if roi[0] != 0:
                continue
            x_min, y_min, x_max, y_max = (rounded(value * np.float32(self.spatial_scale)) for value in roi[1:])
            rows = _bins(y_min, y_max, self.pooled_h, x.shape[1])
            columns = _bins(x_min, x_max, self.pooled_w, x.shape[2])
            for i, (top, bottom) in enumerate(rows):
                for j, (left, right) in enumerate(columns):
                    if top < bottom and left < right:
                        y[region, :, i, j] = x[:, top:bottom, left:right].max(axis=(1, 2))
        return (y,)


def region_count(op: type[CustomOp], shape: Shape) -> int:
    """R of rois [R, 5] (further dimensions of 1 allowed); ModelError otherwise."""
    size = int(np.prod(shape))
    op.require(len(shape) >= 2 and size == shape[0] * 5, f"needs its rois as [R, 5], not {list(shape)}")
    return shape[0]


def rounded(value: np.float32) -> np.float32:
    """To a whole number, halves away from zero."""
    return np.float32(np.copysign(np.floor(np.abs(value) + np.float32(0.5)), value))


def limited(value: np.floating[Any], limit: int) -> int:
    """A side within 0..limit; 0 where it is not a number."""
    return (int(value) if value < limit else limit) if value > 0 else 0


def _bins(low: np.float32, high: np.float32, count: int, limit: int) -> list[tuple[int, int]]:
    """[start, end) of each bin, within 0..limit."""
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.fmax(high - low + np.float32(1), np.float32(1)) / np.float32(count)
        return [
            (
                limited(np.floor(np.float32(i) * size) + low, limit),
                limited(np.ceil(np.float32(i + 1) * size) + low, limit),
            )
            for i in range(count)
        ]
