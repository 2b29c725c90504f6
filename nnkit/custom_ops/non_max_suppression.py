"""NonMaxSuppression of ONNX with a fixed number of rows: boxes and scores -> which boxes stay.

For every class: the boxes whose score is above `score_threshold`, best first (of equal ones the lower index); a box
stays unless its overlap (intersection / union) with one that stayed exceeds `iou_threshold`, until
`max_output_boxes_per_class` stay. Corners of a box may be in any order. Rows (0, class, index of the box), classes
ascend, the best first; rows beyond those that stay are -1. Source: ONNX, NonMaxSuppression-11, for a batch of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape
from nnkit.custom_ops.detection_output import NO_THRESHOLD, jaccard


@dataclass(frozen=True)
class FixedNonMaxSuppression(CustomOp):
    """Inputs boxes [1, n, 4], scores [1, classes, n]. Output [classes * most, 3] float32, most as the attribute says.

    center_point_box: boxes are (x, y, width, height) of the centre, not (y1, x1, y2, x2).
    """

    op_type: ClassVar[str] = "FixedNonMaxSuppression"
    inputs: ClassVar[tuple[str, ...]] = ("boxes", "scores")
    outputs: ClassVar[tuple[str, ...] | None] = ("selected",)

    max_output_boxes_per_class: int
    iou_threshold: float = 0.0
    score_threshold: float = NO_THRESHOLD
    center_point_box: bool = False

    def __post_init__(self) -> None:
        most = self.max_output_boxes_per_class
        self.require(most > 0, f"needs max_output_boxes_per_class above 0, not {most}")
        self.require(0 <= self.iou_threshold <= 1, f"needs iou_threshold in 0..1, not {self.iou_threshold}")

    def most(self, boxes: int) -> int:
        """Rows of a class."""
        return min(self.max_output_boxes_per_class, boxes)

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        boxes, scores = input_shapes
        self.require(
            len(boxes) == 3 and boxes[0] == 1 and boxes[2] == 4, f"needs its boxes as [1, n, 4], not {list(boxes)}"
        )
        self.require(
            len(scores) == 3 and scores[0] == 1 and scores[2] == boxes[1],
            f"needs its scores as [1, classes, {boxes[1]}], not {list(scores)}",
        )
        return ((scores[1] * self.most(boxes[1]), 3),)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        shape = self.output_shapes([array.shape for array in arrays])[0]
        corners = self._corners(np.asarray(arrays[0][0], np.float32))
        selected: list[tuple[int, int, int]] = []
        for label, scores in enumerate(np.asarray(arrays[1][0], np.float32)):
            candidates = np.flatnonzero(scores > np.float32(self.score_threshold))
            kept: list[int] = []
            for index in candidates[np.argsort(-scores[candidates], kind="stable")]:
                if len(kept) == self.most(len(corners)):
                    break
                if not kept or not np.any(jaccard(corners[index], corners[kept]) > np.float32(self.iou_threshold)):
                    kept.append(int(index))
            selected += [(0, label, index) for index in kept]
        rows = np.full(shape, -1, np.float32)
        rows[: len(selected)] = np.array(selected, np.float32).reshape(-1, 3)
        return (rows,)

    def _corners(self, boxes: FloatArray) -> FloatArray:
        if self.center_point_box:
            halves = boxes[:, 2:] * np.float32(0.5)
            boxes = np.concatenate([boxes[:, :2] - halves, boxes[:, :2] + halves], axis=1)
        return np.concatenate(
            [np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], axis=1
        )
