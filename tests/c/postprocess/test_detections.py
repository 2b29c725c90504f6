"""Detections in C against their definition in numpy, and that against DetectionOutput in floating point."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.custom_ops import DetectionOutput
from nnkit.postprocess import Detected, Detections, Numbers, detect, prior_integers

FLOAT = Numbers()
U8 = Numbers(8, False, 1 / 255, 0)
I8 = Numbers(8, True, 0.05, -3)
I16 = Numbers(16, True, 1 / 4096, 0)
U16 = Numbers(16, False, 1 / 8192, 30000)
N, CLASSES = 60, 3


def corners(seed: int = 3) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    low = random.uniform(-0.1, 0.7, (N, 2))
    return np.concatenate([low, low + random.uniform(0.05, 0.4, (N, 2))], axis=1)


def of(code: Any, location: Numbers, confidence: Numbers, **more: Any) -> Detections:
    priors = prior_integers(code, corners()) if code in ("center_size", "corner", "corner_size") else ()
    unit = (0.1, 0.1, 0.2, 0.2) if priors else (1.0, 1.0, 1.0, 1.0)
    given = {"top_k": N, "keep": 2 * N, "priors": priors, "background": 0, "iou_threshold": 0.45} | more
    least = given.pop("score_threshold", 0.3)
    return Detections("ssd", code, N, CLASSES, location, confidence, unit, least, **given)


def stored(numbers: Numbers, real: NDArray[Any]) -> NDArray[Any]:
    if numbers.is_float:
        return real.astype(np.float32)
    limits = np.iinfo(numbers.dtype)
    return np.clip(np.rint(real / numbers.scale) + numbers.zero, limits.min, limits.max).astype(numbers.dtype)


def drawn(params: Detections, seed: int, scale: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Locations, and scores in steps of 1/32, so that many are equal."""
    random = np.random.default_rng(seed)
    count = N * 4 * (1 if params.shared else CLASSES)
    if params.priors:
        location = random.normal(size=count) * scale
    elif params.code == "center":
        location = (random.uniform(0.1, 0.8, (count // 4, 4)) * [1, 1, 0.4, 0.4] * scale).reshape(-1)
    else:
        low = random.uniform(0, 0.7, (count // 4, 2)) * scale
        location = np.concatenate([low, low + random.uniform(0.05, 0.3, low.shape)], axis=1).reshape(-1)
    scores = np.round(random.uniform(size=N * CLASSES) * 32) / 32
    return stored(params.location, location), stored(params.confidence, scores)


def record(found: list[Detected]) -> bytes:
    rows = (struct.pack("=dh4h", each.score, each.label, *each.box) for each in found)
    return struct.pack("=i", len(found)) + b"".join(rows)


VARIANTS = {
    "float": of("center_size", FLOAT, FLOAT),
    "i8": of("center_size", I8, U8, top_k=20, keep=7),
    "u16": of("center_size", U16, I16, clip=True, keep=9),
    "mixed": of("center_size", I16, FLOAT, eta=0.9, iou_threshold=0.8),
    "corner": of("corner", I8, U8, shared=False),
    "corner_size": of("corner_size", I16, U8, background=2, keep=30),
    "corners": of("corners", I16, I8, background=-1, classes_first=True),
    "corners_float": of("corners", FLOAT, U8, clip=True, top_k=11),
    "center": of("center", U16, U8, shared=False, keep=1),
    "all_stay": of("center_size", I8, U8, iou_threshold=1.0),
    "none_overlap": of("center_size", I8, U8, iou_threshold=0.0),
    "none": of("center_size", I8, U8, score_threshold=2.0),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_generated_c_equals_numpy(name: str, run_driver) -> None:
    params = VARIANTS[name]
    data, expected, most = b"", struct.pack("=i", params.working_bytes), 0
    # the last ones drive every sum to its limits
    for seed, scale in enumerate([1.0] * 6 + [0.1, 5.0, 300.0, 1e6]):
        location, scores = drawn(params, seed, scale)
        found = detect(location, scores, params)
        most = max(most, len(found))
        data += location.tobytes() + scores.tobytes()
        expected += record(found)
    assert (most > 0) == (name != "none")
    assert run_driver([params], "detect_driver.c", data) == expected


@pytest.mark.parametrize("name", ["float", "mixed", "corner", "corner_size"])
def test_detections_are_those_of_detection_output(name: str) -> None:
    """In floating point, of the real values that are stored: the same rows, boxes to 14 bits and a table of 2^x."""
    params = replace(VARIANTS[name], eta=1.0, iou_threshold=0.45, keep=2 * N, top_k=N)
    op = DetectionOutput(
        num_classes=CLASSES,
        share_location=params.shared,
        background_label_id=params.background,
        nms_threshold=0.45,
        code_type=params.code.upper(),
        confidence_threshold=0.3,
    )
    priors = np.stack([corners().reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], N)])[None].astype(np.float32)
    rows, same = 0, 0
    for seed in range(8):
        location, scores = drawn(params, seed)
        real = [
            numbers.real(values)[None].astype(np.float32)
            for numbers, values in ((params.location, location), (params.confidence, scores))
        ]
        expected = op.run(*real, priors)[0][0, 0]
        expected = expected[expected[:, 0] == 0]
        for each in detect(location, scores, params):
            of_class = expected[expected[:, 1] == each.label]
            apart = np.abs(np.clip(of_class[:, 3:], -1, 2 - 2**-14) - each.corners).max(axis=1)
            rows, same = rows + 1, same + bool((apart < 4e-4).any())
        rows += abs(len(expected) - len(detect(location, scores, params)))
    assert rows > 150
    assert same >= 0.97 * rows  # where an overlap is at the threshold, another box stays


def test_two_equal_boxes_leave_the_first() -> None:
    params = Detections("nms", "corners", 3, 1, FLOAT, FLOAT, (1.0,) * 4, 0.5, 0.5, 3, 3)
    boxes = np.float32([[0.1, 0.1, 0.5, 0.5], [0.1, 0.1, 0.5, 0.5], [0.6, 0.6, 1.0, 1.0]]).reshape(-1)
    found = detect(boxes, np.float32([0.9, 0.9, 0.6]), params)
    assert [(each.label, round(each.score, 3), each.box) for each in found] == [
        (0, 0.9, (1638, 1638, 8192, 8192)),
        (0, 0.6, (9830, 9830, 16384, 16384)),
    ]
