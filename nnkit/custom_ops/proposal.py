"""Proposal (Faster R-CNN): scores and deltas of the anchors -> regions of interest in image pixels.

1. Anchors: the square [0, 0, base_size - 1, base_size - 1]; for each ratio (height / width) a box of the same area
   with sides rounded to whole pixels, then for each scale that box enlarged about its centre. Shifted to every
   position of the map by feat_stride.
2. Each anchor is moved by its deltas (dx, dy, dw, dh): sides are x_max - x_min + 1, the centre x_min + side / 2; the
   new centre is centre + d * side, the new side exp(d) * side, corners are centre -+ side / 2. Clipped to the image.
3. Boxes with a side below min_size * im_scale go. The best pre_nms_topn by score (ties: earlier position, then
   earlier anchor) are walked through; a box goes that overlaps one kept before by more than nms_thresh (areas with
   the + 1). At most post_nms_topn stay.

The output has post_nms_topn rows (0, x_min, y_min, x_max, y_max), best first; unused rows have batch index -1 and
zeros, for which ROIPooling and PSROIPooling give zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape, four_dimensional


@dataclass(frozen=True)
class Proposal(CustomOp):
    """Inputs scores [1, 2A, H, W] (object scores in the second half), deltas [1, 4A, H, W], im_info [1, 3 or more].

    im_info: height, width and scale of the network's input image. Output rois [post_nms_topn, 5].
    """

    op_type: ClassVar[str] = "Proposal"
    inputs: ClassVar[tuple[str, ...]] = ("scores", "deltas", "im_info")
    outputs: ClassVar[tuple[str, ...] | None] = ("rois",)

    base_size: int = 16
    feat_stride: int = 16
    ratio: tuple[float, ...] = (0.5, 1.0, 2.0)
    scale: tuple[float, ...] = (8.0, 16.0, 32.0)
    pre_nms_topn: int = 6000
    post_nms_topn: int = 300
    nms_thresh: float = 0.7
    min_size: float = 16.0

    def __post_init__(self) -> None:
        for name in ("base_size", "feat_stride", "pre_nms_topn", "post_nms_topn"):
            self.require(getattr(self, name) > 0, f"needs {name} above 0, not {getattr(self, name)}")
        for name in ("ratio", "scale"):
            values = getattr(self, name)
            self.require(bool(values) and min(values) > 0, f"needs {name} values above 0")
        self.require(self.nms_thresh >= 0 and self.min_size >= 0, "cannot have a negative nms_thresh or min_size")

    @property
    def anchor_count(self) -> int:
        """Anchors at each position."""
        return len(self.ratio) * len(self.scale)

    def anchors(self) -> NDArray[np.float32]:
        """Corners of the anchors of position (0, 0): [A, 4], ratios outer, scales inner."""
        middle = (self.base_size - 1) / 2
        corners = []
        for ratio in self.ratio:
            width = np.floor(np.sqrt(self.base_size**2 / ratio) + 0.5)
            height = np.floor(width * ratio + 0.5)
            for scale in self.scale:
                half_w, half_h = (width * scale - 1) / 2, (height * scale - 1) / 2
                corners.append((middle - half_w, middle - half_h, middle + half_w, middle + half_h))
        return np.array(corners, np.float32)

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        scores, deltas, info = input_shapes
        channels, height, width = four_dimensional(type(self), scores, "its scores")
        self.require(
            channels == 2 * self.anchor_count,
            f"needs 2 scores for each of its {self.anchor_count} anchors, not {channels} in all",
        )
        expected = (1, 4 * self.anchor_count, height, width)
        self.require(tuple(deltas) == expected, f"needs its deltas as {list(expected)}, not {list(deltas)}")
        self.require(int(np.prod(info)) >= 3, f"needs height, width and scale as im_info, not {list(info)}")
        return ((self.post_nms_topn, 5),)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        shape = self.output_shapes([array.shape for array in arrays])[0]
        image_h, image_w, image_scale = np.asarray(arrays[2], np.float32).reshape(-1)[:3]
        count = self.anchor_count
        _, _, height, width = arrays[0].shape
        # [H, W, A] and [H, W, A, 4]: the order of positions and anchors that ties refer to
        scores = np.asarray(arrays[0], np.float32)[0, count:].transpose(1, 2, 0).reshape(-1)
        deltas = np.asarray(arrays[1], np.float32)[0].reshape(count, 4, height, width)
        deltas = deltas.transpose(2, 3, 0, 1).reshape(-1, 4)
        shift_y, shift_x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
        shifts = np.stack([shift_x, shift_y, shift_x, shift_y], axis=-1).astype(np.float32) * self.feat_stride
        anchors = (shifts[:, :, None, :] + self.anchors()).reshape(-1, 4).astype(np.float32)
        boxes = _moved(anchors, deltas)
        boxes = np.clip(boxes, 0, np.array([image_w - 1, image_h - 1] * 2, np.float32))
        sides = boxes[:, 2:] - boxes[:, :2] + 1
        large = np.flatnonzero((sides >= np.float32(self.min_size) * image_scale).all(axis=1))
        order = large[np.argsort(-scores[large], kind="stable")][: self.pre_nms_topn]
        rois = np.zeros(shape, np.float32)
        rois[:, 0] = -1
        for row, index in zip(rois, self._suppress(boxes, order), strict=False):
            row[:] = (0, *boxes[index])
        return (rois,)

    def _suppress(self, boxes: FloatArray, order: NDArray[np.intp]) -> list[int]:
        kept: list[int] = []
        left = order
        while left.size and len(kept) < self.post_nms_topn:
            best, left = left[0], left[1:]
            kept.append(int(best))
            left = left[_overlap(boxes[best], boxes[left]) <= np.float32(self.nms_thresh)]
        return kept


def _moved(anchors: FloatArray, deltas: FloatArray) -> FloatArray:
    """Anchors [n, 4] moved and stretched by deltas [n, 4]."""
    half = np.float32(0.5)
    sides = anchors[:, 2:] - anchors[:, :2] + 1
    centres = anchors[:, :2] + half * sides + deltas[:, :2] * sides
    halves = half * np.exp(deltas[:, 2:]) * sides
    return np.concatenate([centres - halves, centres + halves], axis=1)


def _overlap(box: FloatArray, others: FloatArray) -> NDArray[np.float32]:
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]) + 1
    common = np.maximum(sides[:, 0], 0) * np.maximum(sides[:, 1], 0)
    areas = (others[:, 2] - others[:, 0] + 1) * (others[:, 3] - others[:, 1] + 1)
    area = (box[2] - box[0] + 1) * (box[3] - box[1] + 1)
    result: NDArray[np.float32] = common / (area + areas - common)
    return result
