"""PriorBox (SSD): the default boxes of a feature map and their variances. Its values depend on shapes alone.

For every position (row, column) of the map, centred on ((column + offset) * step_w, (row + offset) * step_h), and for
every min_size s: a square of side s; with max_size m of the same index a square of side sqrt(s * m); then for every
aspect ratio r but 1 a box s * sqrt(r) wide and s / sqrt(r) high. Ratios that repeat are dropped; `flip` adds 1 / r
after each r. Corners (x_min, y_min, x_max, y_max) are divided by the image's size; `clip` limits them to 0..1.

Sizes are floats. The first public version of the layer cut them to integers, which matters for fractional sizes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape, four_dimensional

_SAME_RATIO = 1e-6


@dataclass(frozen=True)
class PriorBox(CustomOp):
    """Inputs: feature map [1, C, H, W] and image [1, C', IH, IW]. Output [1, 2, H * W * boxes * 4].

    img_h, img_w: image size instead of the second input's, 0: from the input. step_h, step_w: distance of boxes in
    image pixels, 0: image size / map size. img_size and step set both directions. variance: one value for all, or
    four; none is 0.1. The output's first row holds the corners, the second the variances.
    """

    op_type: ClassVar[str] = "PriorBox"
    inputs: ClassVar[tuple[str, ...]] = ("feature", "image")

    min_size: tuple[float, ...]
    max_size: tuple[float, ...] = ()
    aspect_ratio: tuple[float, ...] = ()
    flip: bool = True
    clip: bool = False
    variance: tuple[float, ...] = ()
    img_size: int = 0
    img_h: int = 0
    img_w: int = 0
    step: float = 0.0
    step_h: float = 0.0
    step_w: float = 0.0
    offset: float = 0.5

    def __post_init__(self) -> None:
        self.require(bool(self.min_size), "needs a min_size")
        self.require(all(size > 0 for size in self.min_size), "needs min_size above 0")
        self.require(
            len(self.max_size) in (0, len(self.min_size)),
            f"has {len(self.max_size)} max_size for {len(self.min_size)} min_size; there may be none or as many",
        )
        for low, high in zip(self.min_size, self.max_size, strict=False):
            self.require(high > low, f"needs max_size above min_size ({high} is not above {low})")
        self.require(all(ratio > 0 for ratio in self.aspect_ratio), "needs aspect ratios above 0")
        self.require(len(self.variance) in (0, 1, 4), f"has {len(self.variance)} variances; there may be 1 or 4")
        self.require(all(value > 0 for value in self.variance), "needs variances above 0")
        sizes = (self.img_size, self.img_h, self.img_w, self.step, self.step_h, self.step_w)
        self.require(min(sizes) >= 0, "cannot have a negative image size or step")

    @property
    def ratios(self) -> tuple[float, ...]:
        """All aspect ratios in the order of the boxes, 1 first."""
        ratios = [1.0]
        for ratio in self.aspect_ratio:
            if all(abs(ratio - known) >= _SAME_RATIO for known in ratios):
                ratios.append(ratio)
                if self.flip:
                    ratios.append(1.0 / ratio)
        return tuple(ratios)

    @property
    def boxes_per_position(self) -> int:
        """Boxes at each position of the map."""
        return len(self.ratios) * len(self.min_size) + len(self.max_size)

    def box_sizes(self) -> list[tuple[float, float]]:
        """(width, height) of the boxes of a position in image pixels, in order."""
        sizes: list[tuple[float, float]] = []
        for index, side in enumerate(self.min_size):
            sizes.append((side, side))
            if self.max_size:
                middle = float(np.sqrt(side * self.max_size[index]))
                sizes.append((middle, middle))
            for ratio in self.ratios[1:]:
                sizes.append((side * float(np.sqrt(ratio)), side / float(np.sqrt(ratio))))
        return sizes

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        _, height, width = four_dimensional(type(self), input_shapes[0], "its feature map")
        four_dimensional(type(self), input_shapes[1], "its image")
        return ((1, 2, height * width * self.boxes_per_position * 4),)

    def boxes(self, feature_shape: Shape, image_shape: Shape) -> FloatArray:
        """The output for inputs of these shapes: [1, 2, H * W * boxes * 4] float32."""
        shape = self.output_shapes([feature_shape, image_shape])[0]
        _, height, width = four_dimensional(type(self), feature_shape)
        image_h = self.img_h or self.img_size or image_shape[2]
        image_w = self.img_w or self.img_size or image_shape[3]
        step_h = self.step_h or self.step or image_h / height
        step_w = self.step_w or self.step or image_w / width
        sizes = np.array(self.box_sizes(), np.float64)  # [boxes, 2]
        centre_y, centre_x = np.meshgrid(
            (np.arange(height) + self.offset) * step_h, (np.arange(width) + self.offset) * step_w, indexing="ij"
        )
        centres = np.stack([centre_x, centre_y], axis=-1)[:, :, None, :]  # [H, W, 1, 2]
        corners = np.concatenate([centres - sizes / 2, centres + sizes / 2], axis=-1)  # [H, W, boxes, 4]
        corners = corners / np.array([image_w, image_h, image_w, image_h], np.float64)
        if self.clip:
            corners = np.clip(corners, 0.0, 1.0)
        variance = self.variance or (0.1,)
        row = np.resize(np.array(variance, np.float32), 4)
        variances = np.tile(row, corners.size // 4)
        return np.stack([corners.reshape(-1).astype(np.float32), variances]).reshape(shape)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        return (self.boxes(arrays[0].shape, arrays[1].shape),)
