"""Detection: mean average precision, and how many of the float network's detections are found again.

Detections are rows of 7 as the SSD layers give them: image, class, score, x_min, y_min, x_max, y_max; a row whose
image is negative is empty. Average precision: detections of a class over all images in order of score, each matched
to the free true box of its image with the largest overlap, at least `overlap`; the area under the precision made
monotone from the right, over recall (the definition of PASCAL VOC since 2010). A class counts if it has true boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.verify.tasks.score import Metric, Outputs, TaskScore

ROW = 7
_DRAWN_BOXES = 20  # of one image


@dataclass(frozen=True)
class Box:
    """A box of a class. Corners as shares of width and height; score 1 for a true box."""

    category: int
    score: float
    x_min: float
    y_min: float
    x_max: float
    y_max: float


def boxes_of(output: NDArray[Any]) -> list[Box]:
    """The detections in a [..., 7] output; empty rows are left out."""
    rows = np.asarray(output, np.float64).reshape(-1, ROW)
    return [Box(int(r[1]), *(float(v) for v in r[2:])) for r in rows if r[0] >= 0]


def overlap(a: Box, b: Box) -> float:
    """Intersection over union, 0 to 1."""
    width = min(a.x_max, b.x_max) - max(a.x_min, b.x_min)
    height = min(a.y_max, b.y_max) - max(a.y_min, b.y_min)
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(box.x_max - box.x_min) * (box.y_max - box.y_min) for box in (a, b)]
    return width * height / (sum(areas) - width * height)


def mean_average_precision(
    detections: Sequence[Sequence[Box]], truth: Sequence[Sequence[Box]], least_overlap: float
) -> float:
    """Over the classes that have true boxes; NaN where there are none. One list of boxes an image."""
    classes = sorted({box.category for boxes in truth for box in boxes})
    values = [_average_precision(detections, truth, category, least_overlap) for category in classes]
    return float(np.mean(values)) if values else float("nan")


def _average_precision(
    detections: Sequence[Sequence[Box]], truth: Sequence[Sequence[Box]], category: int, least_overlap: float
) -> float:
    free = [[box for box in boxes if box.category == category] for boxes in truth]
    total = sum(len(boxes) for boxes in free)
    ranked = [(box, image) for image, boxes in enumerate(detections) for box in boxes if box.category == category]
    ranked.sort(key=lambda entry: -entry[0].score)
    hits = []
    for box, image in ranked:
        best = max(free[image], key=lambda true: overlap(box, true), default=None)
        hit = best is not None and overlap(box, best) >= least_overlap
        if best is not None and hit:
            free[image].remove(best)
        hits.append(hit)
    if not hits:
        return 0.0
    right = np.cumsum(hits)
    recall = right / total
    precision = np.maximum.accumulate((right / np.arange(1, len(hits) + 1))[::-1])[::-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def score_detection(
    floats: Outputs,
    program: Outputs,
    truth: Mapping[int, Sequence[Box]] | None,
    least_overlap: float,
    least_score: float,
) -> TaskScore:
    """truth: true boxes by index of the image, for those that are labelled (perhaps with none).

    detection_agreement: the share of the float network's detections of at least `least_score` that the quantised one
    gives too, of the same class with an overlap of at least `least_overlap`; mean_overlap: over those that are found.
    """
    own, reference = ([boxes_of(v) for v in o.values] for o in (program, floats))
    wanted = agreeing = 0
    overlaps: list[float] = []
    for ours, theirs in zip(own, reference, strict=True):
        left = list(ours)
        for box in theirs:
            if box.score < least_score:
                continue
            wanted += 1
            same = [other for other in left if other.category == box.category]
            best = max(same, key=lambda other: overlap(box, other), default=None)
            if best is not None and overlap(box, best) >= least_overlap:
                agreeing += 1
                left.remove(best)
                overlaps.append(overlap(box, best))
    metrics = [
        Metric("detection_agreement", agreeing / wanted if wanted else float("nan")),
        Metric("mean_overlap", float(np.mean(overlaps)) if overlaps else float("nan")),
    ]
    facts: dict[str, float] = {"images": len(own), "float_detections": wanted}
    if truth is not None:
        chosen = sorted(truth)
        values = [
            mean_average_precision([side[i] for i in chosen], [truth[i] for i in chosen], least_overlap)
            for side in (own, reference)
        ]
        metrics.append(Metric("mean_average_precision", *values))
        facts |= {"labelled_images": len(chosen), "true_boxes": sum(len(truth[i]) for i in chosen)}
    sides = {"program": own, "float": reference}
    drawing = {side: [_drawn(boxes, least_score) for boxes in images] for side, images in sides.items()}
    if truth is not None:
        drawing["truth"] = [_drawn(truth.get(image, ()), 0.0) for image in range(len(own))]
    return TaskScore("detection", tuple(metrics), facts, {"boxes": drawing})


def _drawn(boxes: Sequence[Box], least_score: float) -> list[list[float]]:
    """[class, score, x_min, y_min, x_max, y_max] of the best boxes of at least that score."""
    chosen = sorted((box for box in boxes if box.score >= least_score), key=lambda box: -box.score)[:_DRAWN_BOXES]
    return [[b.category, *(round(v, 4) for v in (b.score, b.x_min, b.y_min, b.x_max, b.y_max))] for b in chosen]
