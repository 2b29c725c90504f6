"""DetectionOutput where OpenCV has no say: a plain scalar reading of its definition, and cases worked by hand."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from typing import Any

import numpy as np
import pytest

from nnkit.custom_ops import DetectionOutput

BASE = DetectionOutput(num_classes=3, nms_threshold=0.6, confidence_threshold=0.2)


def decoded(op: DetectionOutput, prior: Any, variance: Any, location: Any) -> list[float]:
    shift = [t if op.variance_encoded_in_target else t * v for t, v in zip(location, variance, strict=True)]
    width, height = prior[2] - prior[0], prior[3] - prior[1]
    if op.code_type == "CENTER_SIZE":
        x, y = (prior[0] + prior[2]) / 2 + shift[0] * width, (prior[1] + prior[3]) / 2 + shift[1] * height
        w, h = exp(shift[2]) * width, exp(shift[3]) * height
        return [x - w / 2, y - h / 2, x + w / 2, y + h / 2]
    unit = [width, height, width, height] if op.code_type == "CORNER_SIZE" else [1.0] * 4
    return [p + s * u for p, s, u in zip(prior, shift, unit, strict=True)]


def overlap(a: list[float], b: list[float]) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    areas = [(c[2] - c[0]) * (c[3] - c[1]) if c[2] >= c[0] and c[3] >= c[1] else 0.0 for c in (a, b)]
    return w * h / (sum(areas) - w * h)


def plain(op: DetectionOutput, location: Any, confidence: Any, priors: Any) -> list[list[float]]:
    boxes, variances = priors.reshape(2, -1, 4).astype(float)
    found = []
    for label in range(op.num_classes):
        if label == op.background_label_id:
            continue
        scores = confidence.reshape(len(boxes), -1)[:, label]
        order = sorted((-float(s), i) for i, s in enumerate(scores) if s > op.confidence_threshold)
        kept: list[list[float]] = []
        threshold = op.nms_threshold
        for score, i in order[: op.top_k if op.top_k > 0 else None]:
            box = decoded(op, boxes[i], variances[i], location.reshape(len(boxes), -1, 4)[i, 0].astype(float))
            if all(overlap(box, other[3:]) <= threshold for other in kept):
                kept.append([0, label, -score, *box])
                if op.eta < 1 and threshold > 0.5:
                    threshold *= op.eta
        found += kept
    best = sorted(range(len(found)), key=lambda i: (-found[i][2], i))
    return [found[i] for i in sorted(best[: op.keep_top_k] if op.keep_top_k > 0 else best)]


@pytest.mark.parametrize("code_type", ["CORNER", "CENTER_SIZE", "CORNER_SIZE"])
@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("eta", [1.0, 0.95])
@pytest.mark.parametrize("limits", [(-1, -1), (12, 7)])
def test_variants_against_plain_loops(code_type: str, encoded: bool, eta: float, limits: tuple[int, int]) -> None:
    random = np.random.default_rng(5)
    low = random.uniform(0, 0.6, (70, 2))
    corners = np.concatenate([low, low + random.uniform(0.2, 0.4, (70, 2))], axis=1)
    priors = np.stack([corners.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], 70)])[None].astype(np.float32)
    location = (random.normal(size=(1, 280)) * 0.2).astype(np.float32)
    # steps of 1/32: many scores are equal, and the order of equals is part of the definition
    confidence = (np.round(random.uniform(size=(1, 210)) * 32) / 32).astype(np.float32)
    op = replace(BASE, code_type=code_type, variance_encoded_in_target=encoded, eta=eta)
    op = replace(op, top_k=limits[0], keep_top_k=limits[1])
    expected = plain(op, location, confidence, priors)
    found = op.run(location, confidence, priors)[0][0, 0]
    rows = found[found[:, 0] == 0]
    assert len(rows) == len(expected) > 5
    np.testing.assert_allclose(rows, expected, atol=1e-6, rtol=0)
    assert found.shape[0] == (7 if limits[1] > 0 else 140)


def test_two_equal_boxes_leave_the_first() -> None:
    box = [0.1, 0.1, 0.5, 0.5]
    priors = np.array([[box * 3, [1.0] * 12]], np.float32).reshape(1, 2, 12)
    confidence = np.array([[0.1, 0.9, 0.2, 0.9, 0.3, 0.6]], np.float32)  # classes 0 and 1 of three boxes
    op = DetectionOutput(num_classes=2, nms_threshold=0.5, confidence_threshold=0.5, keep_top_k=3)
    shift = np.zeros((1, 12), np.float32)
    shift[0, 8:] = 0.5  # the third box lies elsewhere
    expected = np.zeros((3, 7), np.float32)
    expected[0] = [0, 1, 0.9, *box]
    expected[1] = [0, 1, 0.6, 0.6, 0.6, 1.0, 1.0]
    expected[2, 0] = -1
    np.testing.assert_allclose(op.run(shift, confidence, priors)[0][0, 0], expected, atol=1e-7)
