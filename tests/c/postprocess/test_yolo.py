"""YOLO rows in C against their definition in numpy, and that against the published formulas in floating point."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.errors import UsageError
from nnkit.postprocess import Detected, Numbers, Yolo, YoloHead, detect_yolo
from nnkit.recipe.cpu_stages import Yolo as Written
from nnkit.verify.tasks.stage_boxes import StageBoxes

FLOAT = Numbers()
I8 = Numbers(8, True, 0.08, 20)
U8 = Numbers(8, False, 1 / 255, 0)
I16 = Numbers(16, True, 1 / 2048, 0)
ANCHORS = (((820, 1000), (2000, 1600)), ((4000, 6000),))
MAPS = ((5, 4), (3, 2))  # height, width
IMAGE = (96, 64)


def of(code: Any, numbers: tuple[Numbers, ...], **more: Any) -> Yolo:
    """Two maps, in an output each or both in one."""
    cells = tuple(((round(16384 / width), round(16384 / height)),) for height, width in MAPS)
    anchors = cells if code == "x" else ANCHORS
    heads = tuple(YoloHead(i % len(numbers), *MAPS[i], anchors[i]) for i in range(2))
    given = {"score_threshold": 0.2, "iou_threshold": 0.45, "top_k": 60, "keep": 30} | more
    given.setdefault("scale_xy", 2.0 if code == "v5" else 1.0)
    return Yolo(code, heads, 3, numbers, **given)


def drawn(params: Yolo, seed: int, scale: float = 1.0) -> list[NDArray[Any]]:
    """Stored rows by output."""
    random = np.random.default_rng(seed)
    outputs = []
    for index, numbers in enumerate(params.outputs):
        rows = sum(head.rows for head in params.heads if head.output == index)
        real = random.normal(0, 1.2, (rows, params.row_values)) * scale
        if params.activated:
            ends = 4 if params.code == "x" else 0
            real[:, ends:] = 1 / (1 + np.exp(np.minimum(-real[:, ends:], 700)))
        if numbers.is_float:
            outputs.append(real.astype(np.float32))
            continue
        limits = np.iinfo(numbers.dtype)
        whole = np.clip(np.rint(real / numbers.scale) + numbers.zero, limits.min, limits.max)
        outputs.append(whole.astype(numbers.dtype))
    return outputs


def record(found: list[Detected]) -> bytes:
    rows = (struct.pack("=Hh4h", each.score, each.label, *each.box) for each in found)
    return struct.pack("=i", len(found)) + b"".join(rows)


VARIANTS = {
    "v3": of("v3", (I8, I8)),
    "v3_float": of("v3", (FLOAT, FLOAT)),
    "v4": of("v3", (I16, I16), scale_xy=1.2, clip=True),
    "v5": of("v5", (I8, Numbers(8, True, 0.05, -3))),
    "v5_cells": of("v5", (I16, I16), anchors_first=False, top_k=9),
    "v5_activated": of("v5", (U8,), activated=True, keep=5),
    "v5_float": of("v5", (FLOAT,)),
    "x": of("x", (I8,)),
    "x_activated": of("x", (I16, I16), activated=True, score_threshold=0.0),
    "none": of("v3", (I8, I8), score_threshold=1.0),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_generated_c_equals_numpy(name: str, run_driver) -> None:
    params = VARIANTS[name]
    data, expected, most = b"", struct.pack("=i", params.working_bytes), 0
    # the last ones drive every sum to its limits
    for seed, scale in enumerate([1.0] * 6 + [0.1, 5.0, 300.0, 1e6]):
        outputs = drawn(params, seed, scale)
        found = detect_yolo(outputs, params)
        most = max(most, len(found))
        data += b"".join(values.tobytes() for values in outputs)
        expected += record(found)
    assert (most > 2) == (name != "none")
    assert run_driver([params], "yolo_driver.c", data) == expected


@pytest.mark.parametrize("name", [name for name in VARIANTS if name not in ("none", "v5_cells", "v5_activated")])
def test_detections_are_those_of_the_formulas(name: str) -> None:
    """In floating point, of the real values that are stored: the same rows, to the resolution of boxes and scores."""
    params = VARIANTS[name]
    names = [f"o{index}" for index in range(len(params.outputs))]
    heads = [
        {"output": names[head.output], "map": [head.height, head.width]}
        | ({} if params.code == "x" else {"anchors": [[w * 64 / 16384, h * 96 / 16384] for w, h in head.anchors]})
        for head in params.heads
    ]
    written = {"kind": "yolo", "code": params.code, "image": IMAGE, "heads": heads, "activated": params.activated}
    written |= {"score_threshold": params.score_threshold, "top_k": 1000, "keep": 1000, "clip": params.clip}
    written |= {"scale_xy": None if params.code == "x" else params.scale_xy}
    read = StageBoxes(Written.model_validate(written))
    assert list(read.outputs) == names
    rows, same = 0, 0
    for seed in range(8):
        outputs = drawn(params, seed)
        real = {name: numbers.real(each) for name, numbers, each in zip(names, params.outputs, outputs, strict=True)}
        expected = read(real)[0, 0]
        expected = expected[expected[:, 0] == 0]
        found = detect_yolo(outputs, params)
        for each in found:
            of_class = expected[expected[:, 1] == each.label]
            apart = np.abs(np.clip(of_class[:, 3:], -1, 2 - 2**-14) - each.corners).max(axis=1)
            near = (apart < 2e-3) & (np.abs(of_class[:, 2] - each.score / 32768) < 2e-4)
            rows, same = rows + 1, same + bool(near.any())
        rows += max(0, len(expected) - len(found)) if len(found) < params.keep else 0
    assert rows > 30
    assert same >= 0.97 * rows  # where an overlap or a score is at the threshold, another box stays


def test_a_box_by_hand() -> None:
    """YOLOv3: a value of 0 has a logistic function of a half, and the anchor's own side."""
    params = Yolo("v3", (YoloHead(0, 2, 4, ((4096, 8192),)),), 1, (FLOAT,), 0.5, 0.5, 8, 8)
    rows = np.full((8, 6), -20, np.float32)
    rows[6] = [0, 0, 0, 0, 20, 20]  # second line, third cell: centre 2.5 / 4, 1.5 / 2
    (found,) = detect_yolo([rows], params)
    # 2^15 / (1 + 2^-15), twice
    assert found == Detected(0, 32766, (8192, 8192, 12288, 16384))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"outputs": (Numbers(8, True, 0.9), Numbers(8, True, 0.9))}, "too coarse"),
        ({"outputs": (I8, I16)}, "different types"),
        ({"score_threshold": 1.5}, "out of range"),
    ],
)
def test_what_cannot_be_computed_is_refused(change: dict[str, Any], reason: str) -> None:
    numbers = change.pop("outputs", (I8, I8))
    with pytest.raises(UsageError, match=reason):
        of("v3", numbers, **change)
