"""Detections by the recipe's CPU stage `ssd` or `nms`, in floating point: what the application makes of the outputs.

The stage's own integer arithmetic is the application's; here both networks are read alike, by DetectionOutput.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.custom_ops import DetectionOutput, PriorBox
from nnkit.recipe.cpu_stages import Nms, Ssd

Array = NDArray[np.float32]


@dataclass(frozen=True)
class StageBoxes:
    """Reads the detections out of a network's outputs as the stage has it."""

    stage: Ssd | Nms

    @property
    def outputs(self) -> tuple[str, str]:
        """The outputs that it reads: boxes and scores."""
        stage = self.stage
        return (stage.location, stage.confidence) if isinstance(stage, Ssd) else (stage.boxes, stage.scores)

    def __call__(self, values: Mapping[str, NDArray[Any]]) -> Array:
        """[1, 1, n, 7] rows of image, class, score and corners, as `DetectionOutput` gives them."""
        boxes, scores = (np.asarray(values[name], np.float32) for name in self.outputs)
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
    layer = DetectionOutput(
        num_classes=rows.shape[1],
        background_label_id=-1 if stage.background is None else stage.background,
        nms_threshold=stage.iou_threshold,
        top_k=stage.top_k or -1,
        keep_top_k=stage.keep,
        confidence_threshold=stage.score_threshold,
        clip=stage.clip,
    )
    priors = np.stack([np.zeros(boxes.size, np.float32), np.ones(boxes.size, np.float32)])[np.newaxis]
    return layer.run(boxes.reshape(1, -1), rows.reshape(1, -1), priors)[0]
