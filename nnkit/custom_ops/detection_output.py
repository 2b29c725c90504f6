"""DetectionOutput (SSD): locations, confidences and prior boxes -> the detections, best first within each class.

1. Decode each prior box with its location (`code_type`, `variance_encoded_in_target`; boxes of a class of their own
   unless `share_location`); with `clip` limit corners to 0..1.
2. Per class but `background_label_id`: keep the boxes whose confidence is above `confidence_threshold`, best first
   (of equal ones the one of the lower index), at most `top_k`; walk through them and keep a box unless its Jaccard
   overlap with one kept before exceeds the threshold. With `eta` < 1 the threshold is multiplied by eta after every
   kept box while it is above 0.5.
3. Of all classes together keep the `keep_top_k` of highest confidence (ties: lower class, then better rank first).

Rows of the output: image id, class, confidence, x_min, y_min, x_max, y_max; classes ascend. The number of rows is
fixed: what lies behind the detections found has image id -1 and zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nnkit.custom_ops.base import CustomOp, FloatArray, Shape

CODE_TYPES = ("CORNER", "CENTER_SIZE", "CORNER_SIZE")
NO_THRESHOLD = -3.4028234663852886e38


@dataclass(frozen=True)
class DetectionOutput(CustomOp):
    """Inputs location [1, n * 4], or [1, n * num_classes * 4], confidence [1, n * num_classes], priors [1, 2, n * 4].

    Output [1, 1, rows, 7]: rows = keep_top_k, or where that is below 0 the most detections there can be. top_k and
    keep_top_k of -1: no limit. background_label_id of -1: no class is left out.
    """

    op_type: ClassVar[str] = "DetectionOutput"
    inputs: ClassVar[tuple[str, ...]] = ("location", "confidence", "priors")

    num_classes: int
    share_location: bool = True
    background_label_id: int = 0
    nms_threshold: float = 0.3
    top_k: int = -1
    eta: float = 1.0
    code_type: str = "CORNER"
    variance_encoded_in_target: bool = False
    keep_top_k: int = -1
    confidence_threshold: float = NO_THRESHOLD
    clip: bool = False

    def __post_init__(self) -> None:
        self.require(self.num_classes > 0, f"needs num_classes above 0, not {self.num_classes}")
        self.require(self.nms_threshold >= 0, f"cannot have a negative nms_threshold ({self.nms_threshold})")
        self.require(0 < self.eta <= 1, f"needs eta in (0, 1], not {self.eta}")
        self.require(self.code_type in CODE_TYPES, f"has no code_type '{self.code_type}' ({', '.join(CODE_TYPES)})")
        for name in ("top_k", "keep_top_k"):
            value = getattr(self, name)
            self.require(value == -1 or value > 0, f"needs {name} above 0, or -1 for no limit, not {value}")

    @property
    def labels(self) -> tuple[int, ...]:
        """The classes that are reported, ascending."""
        return tuple(label for label in range(self.num_classes) if label != self.background_label_id)

    def per_class_limit(self, priors: int) -> int:
        """Most detections of one class."""
        return priors if self.top_k < 0 else min(self.top_k, priors)

    def rows(self, priors: int) -> int:
        """Rows of the output for `priors` prior boxes, at least 1."""
        return self.keep_top_k if self.keep_top_k > 0 else max(self.per_class_limit(priors) * len(self.labels), 1)

    def output_shapes(self, input_shapes: Sequence[Shape]) -> tuple[Shape, ...]:
        location, confidence, boxes = input_shapes
        self.require(
            len(boxes) == 3 and boxes[0] == 1 and boxes[1] == 2 and boxes[2] % 4 == 0,
            f"needs its priors as [1, 2, n * 4], not {list(boxes)}",
        )
        priors = boxes[2] // 4
        sets = 1 if self.share_location else self.num_classes
        for what, shape, expected in (
            ("locations", location, priors * sets * 4),
            ("confidences", confidence, priors * self.num_classes),
        ):
            size = int(np.prod(shape))
            self.require(size == expected, f"needs {expected} {what} for {priors} priors, not {size}")
        return ((1, 1, self.rows(priors), 7),)

    def run(self, *arrays: FloatArray) -> tuple[FloatArray, ...]:
        shape = self.output_shapes([array.shape for array in arrays])[0]
        priors, variances = np.asarray(arrays[2], np.float32).reshape(2, -1, 4)
        scores = np.asarray(arrays[1], np.float32).reshape(-1, self.num_classes)
        locations = np.asarray(arrays[0], np.float32).reshape(len(priors), -1, 4)
        decoded: dict[int, FloatArray] = {}
        detections: list[tuple[float, int, FloatArray]] = []  # confidence, class, box
        for label in self.labels:
            place = 0 if self.share_location else label
            if place not in decoded:
                decoded[place] = self.decode(priors, variances, locations[:, place])
            for index in self._suppress(decoded[place], scores[:, label]):
                detections.append((float(scores[index, label]), label, decoded[place][index]))
        if 0 <= self.keep_top_k < len(detections):
            # `sorted` is stable: ties stay in the order of classes, and of ranks within a class.
            best = sorted(detections, key=lambda row: -row[0])[: self.keep_top_k]
            detections = sorted(best, key=lambda row: row[1])
        rows = np.zeros(shape, np.float32)
        rows[0, 0, :, 0] = -1
        for row, (score, label, box) in zip(rows[0, 0], detections, strict=False):
            row[:] = (0, label, score, *box)
        return (rows,)

    def decode(self, priors: FloatArray, variances: FloatArray, location: FloatArray) -> FloatArray:
        """Boxes [n, 4] (corners) from priors [n, 4], variances [n, 4] and locations [n, 4]."""
        shift = location if self.variance_encoded_in_target else location * variances
        if self.code_type == "CORNER":
            boxes = priors + shift
        else:
            sizes = priors[:, 2:] - priors[:, :2]
            if self.code_type == "CORNER_SIZE":
                boxes = priors + shift * np.concatenate([sizes, sizes], axis=1)
            else:
                centres = (priors[:, :2] + priors[:, 2:]) * np.float32(0.5) + shift[:, :2] * sizes
                halves = np.exp(shift[:, 2:]) * sizes * np.float32(0.5)
                boxes = np.concatenate([centres - halves, centres + halves], axis=1)
        return np.clip(boxes, np.float32(0), np.float32(1)) if self.clip else boxes

    def _suppress(self, boxes: FloatArray, scores: FloatArray) -> list[int]:
        """Indices of the boxes that are kept, best first."""
        candidates = np.flatnonzero(scores > np.float32(self.confidence_threshold))
        order = candidates[np.argsort(-scores[candidates], kind="stable")][: self.per_class_limit(len(boxes))]
        kept: list[int] = []
        threshold = np.float32(self.nms_threshold)
        for index in order:
            if kept and np.any(jaccard(boxes[index], boxes[kept]) > threshold):
                continue
            kept.append(int(index))
            if self.eta < 1 and threshold > 0.5:
                threshold = threshold * np.float32(self.eta)
        return kept


def jaccard(box: FloatArray, others: FloatArray) -> NDArray[np.float32]:
    """Overlap of a box [4] with others [n, 4]: intersection / union, 0 where the intersection is empty."""
    low = np.maximum(box[:2], others[:, :2])
    sides = np.minimum(box[2:], others[:, 2:]) - low
    inside = (sides[:, 0] > 0) & (sides[:, 1] > 0)
    common = sides[:, 0] * sides[:, 1]
    union = _area(box[None])[0] + _area(others) - common
    overlaps: NDArray[np.float32] = np.divide(common, union, out=np.zeros_like(common), where=inside)
    return overlaps


def _area(boxes: FloatArray) -> NDArray[np.float32]:
    sides = boxes[:, 2:] - boxes[:, :2]
    areas: NDArray[np.float32] = np.where((sides < 0).any(axis=1), np.float32(0), sides[:, 0] * sides[:, 1])
    return areas
