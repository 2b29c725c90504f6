"""Detections by the recipe's CPU stage `ssd`, `nms` or `yolo`, in floating point, as the application makes them.

The stage's own integer arithmetic is the application's; here both networks are read alike, by DetectionOutput.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.custom_ops import DetectionOutput, PriorBox
from nnkit.recipe.cpu_stages import Nms, Ssd, Yolo, YoloMap

Array = NDArray[np.float32]


@dataclass(frozen=True)
class StageBoxes:
    """Reads the detections out of a network's outputs as the stage has it."""

    stage: Ssd | Nms | Yolo

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that it reads: boxes and scores, or rows."""
        stage = self.stage
        if isinstance(stage, Yolo):
            return tuple(dict.fromkeys(each.output for each in stage.heads))
        return (stage.location, stage.confidence) if isinstance(stage, Ssd) else (stage.boxes, stage.scores)

    def __call__(self, values: Mapping[str, NDArray[Any]]) -> Array:
        """[1, 1, n, 7] rows of image, class, score and corners, as `DetectionOutput` gives them."""
        read = [np.asarray(values[name], np.float32) for name in self.outputs]
        if isinstance(self.stage, Yolo):
            return _of_yolo(self.stage, dict(zip(self.outputs, read, strict=True)))
        boxes, scores = read
        return (
            _of_ssd(self.stage, boxes, scores) if isinstance(self.stage, Ssd) else _of_nms(self.stage, boxes, scores)
        )


def _of_ssd(stage: Ssd, locations: Array, scores: Array) -> Array:
    image = (1, 3, *stage.image)
    maps = [
        PriorBox(
            min_size=each.min_size,
            max_size=each.max_size,
            aspect_ratio=each.aspect_ratio,
            flip=each.flip,
            clip=each.clip,
            variance=stage.variance,
            step=each.step,
            offset=each.offset,
        ).boxes((1, 1, *each.map), image)
        for each in stage.priors
    ]
    priors = np.concatenate(maps, axis=2)
    layer = DetectionOutput(
        num_classes=scores.size // (priors.size // 8),
        share_location=stage.share_location,
        background_label_id=-1 if stage.background is None else stage.background,
        nms_threshold=stage.nms_threshold,
        top_k=stage.top_k or -1,
        eta=stage.eta,
        code_type=stage.code_type.upper(),
        variance_encoded_in_target=stage.variance_encoded_in_target,
        keep_top_k=stage.keep_top_k,
        confidence_threshold=stage.confidence_threshold,
        clip=stage.clip,
    )
    return layer.run(locations.reshape(1, -1), scores.reshape(1, -1), priors)[0]


def _of_nms(stage: Nms, boxes: Array, scores: Array) -> Array:
    height, width = stage.image
    boxes = np.asarray(boxes.reshape(-1, 4) / np.asarray([width, height, width, height]), np.float32)
    if stage.format == "center":
        boxes = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)
    rows = scores.reshape(len(boxes), -1) if scores.shape[-1] != len(boxes) else scores.reshape(-1, len(boxes)).T
    return _suppressed(stage, boxes, rows, -1 if stage.background is None else stage.background)


def _of_yolo(stage: Yolo, outputs: dict[str, Array]) -> Array:
    """By the formulas of `nnkit.postprocess.yolo`, in floating point."""
    used = dict.fromkeys(outputs, 0)
    rows_of = {name: sum(_rows(each) for each in stage.heads if each.output == name) for name in outputs}
    boxes, scores = [], []
    for head in stage.heads:
        rows = outputs[head.output].reshape(rows_of[head.output], -1).astype(np.float64)
        rows = rows[used[head.output] : used[head.output] + _rows(head)]
        used[head.output] += _rows(head)
        active = rows if stage.activated else 1 / (1 + np.exp(-rows))
        boxes.append(_yolo_boxes(stage, head, rows, active))
        scores.append(active[:, 4:5] * active[:, 5:])
    return _suppressed(stage, np.concatenate(boxes).astype(np.float32), np.concatenate(scores), -1)


def _rows(head: YoloMap) -> int:
    return head.map[0] * head.map[1] * max(len(head.anchors), 1)


def _yolo_boxes(stage: Yolo, head: YoloMap, rows: NDArray[Any], active: NDArray[Any]) -> NDArray[np.float64]:
    """Corners [rows, 4] as fractions of the image."""
    height, width = head.map
    size = np.array([stage.image[1], stage.image[0]])
    step = 1 / np.array([width, height])
    anchors = np.array(head.anchors).reshape(-1, 2) / size if head.anchors else step[None]
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).reshape(-1, 2)
    if stage.order == "anchors":
        cells, sides = np.tile(grid, (len(anchors), 1)), np.repeat(anchors, len(grid), axis=0)
    else:
        cells, sides = np.repeat(grid, len(anchors), axis=0), np.tile(anchors, (len(grid), 1))
    scale = stage.scale_xy or (2.0 if stage.code == "v5" else 1.0)
    moves = rows[:, :2] if stage.code == "x" else scale * active[:, :2] - (scale - 1) / 2
    factors = (2 * active[:, 2:4]) ** 2 if stage.code == "v5" else np.exp(rows[:, 2:4])
    centres, halves = (cells + moves) * step, sides * factors / 2
    return np.concatenate([centres - halves, centres + halves], axis=1)


def _suppressed(stage: Nms | Yolo, boxes: Array, rows: NDArray[Any], background: int) -> Array:
    layer = DetectionOutput(
        num_classes=rows.shape[1],
        background_label_id=background,
        nms_threshold=stage.iou_threshold,
        top_k=stage.top_k or -1,
        keep_top_k=stage.keep,
        confidence_threshold=stage.score_threshold,
        clip=stage.clip,
    )
    priors = np.stack([np.zeros(boxes.size, np.float32), np.ones(boxes.size, np.float32)])[np.newaxis]
    return layer.run(boxes.reshape(1, -1), rows.astype(np.float32).reshape(1, -1), priors)[0]
