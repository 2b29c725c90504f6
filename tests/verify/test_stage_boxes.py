"""Detections by the recipe's stages, against the same boxes read as `decode` describes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_project import make_build, write_project

from nnkit.recipe.cpu_stages import Nms, Ssd
from nnkit.recipe.tasks import Detection
from nnkit.verify.tasks import task_reading
from nnkit.verify.tasks.decode import DecodedBoxes
from nnkit.verify.tasks.stage_boxes import StageBoxes

SSD = {"kind": "ssd", "location": "b", "confidence": "s", "image": [16, 32], "confidence_threshold": 0.05}
SSD |= {"priors": [{"map": [2, 4], "min_size": [8, 12]}, {"map": [1, 2], "min_size": [20]}], "keep_top_k": 200}
NMS = {"kind": "nms", "boxes": "b", "scores": "s", "background": 0, "score_threshold": 0.05, "keep": 200}
ANCHORS = [{"stride": 8, "sides": [8, 12]}, {"stride": 16, "sides": [20]}]
COUNT = 2 * 4 * 2 + 2


def values(corners: bool) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    low = random.uniform(0, 0.6, (COUNT, 2))
    boxes = np.concatenate([low, low + random.uniform(0.1, 0.4, low.shape)], axis=1)
    moves = random.normal(0, 0.5, (COUNT, 4))
    return {"b": (boxes if corners else moves).astype(np.float32), "s": random.uniform(0, 1, (COUNT, 3)).astype("f4")}


def decoded(given: dict[str, np.ndarray], **head: Any) -> np.ndarray:
    task = {"kind": "detection", "decode": {"heads": [{"boxes": "b", "scores": "s"} | head]}}
    decode = Detection.model_validate(task).decode
    assert decode is not None
    return DecodedBoxes(decode, (16, 32))(given)


def test_ssd() -> None:
    given = values(corners=False)
    found = StageBoxes(Ssd.model_validate(SSD))(given)
    np.testing.assert_allclose(found, decoded(given, anchors=ANCHORS), rtol=0, atol=1e-6)
    assert (found[..., 0] >= 0).sum() > 5


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_nms(center: bool, turned: bool) -> None:
    """Boxes in pixels, as corners or by their centre; scores of each box, or of each class."""
    given = values(corners=True)
    expected = decoded(given)
    pixels = given["b"] * np.asarray([32, 16, 32, 16], np.float32)
    if center:
        pixels = np.concatenate([(pixels[:, :2] + pixels[:, 2:]) / 2, pixels[:, 2:] - pixels[:, :2]], axis=1)
    stage = NMS | {"image": [16.0, 32.0], "format": "center" if center else "corners"}
    scores = given["s"].T if turned else given["s"]
    found = StageBoxes(Nms.model_validate(stage))({"b": pixels, "s": scores})
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_a_task_without_an_output_reads_by_the_stage(tmp_path: Any) -> None:
    recipe = make_build(write_project(tmp_path)).recipe
    stage, task = Ssd.model_validate(SSD), Detection(kind="detection")
    verify = recipe.verify.model_copy(update={"task": task})
    recipe = recipe.model_copy(update={"postprocess": (stage,), "verify": verify})
    shapes = {"b": (COUNT, 4), "s": (COUNT, 3)}
    assert task_reading(recipe, shapes, [(3, 16, 32)]) == StageBoxes(stage)
