"""Detections out of boxes and scores: what the networks' own decoders give, on real faces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
import pytest
import yaml
from numpy.typing import NDArray
from pydantic import ValidationError

from benchmarks.nnie_detections import in_opencv, retinaface_boxes
from benchmarks.nnie_networks import NETWORKS
from nnkit.errors import RecipeError
from nnkit.recipe.tasks import Detection
from nnkit.verify.tasks.decode import DecodedBoxes


def published(name: str) -> dict[str, Any]:
    """How the recipe of the benchmark has a network's detections read."""
    task = NETWORKS[name].task
    assert task is not None
    settings: dict[str, Any] = yaml.safe_load(task)["decode"]
    return settings


def decoder(settings: Mapping[str, Any], size: tuple[int, int]) -> DecodedBoxes:
    task = Detection.model_validate({"kind": "detection", "decode": settings})
    assert task.decode is not None
    return DecodedBoxes(task.decode, size)


def faces(shared: Path, size: tuple[int, int], mean: float, scale: float) -> list[NDArray[np.float32]]:
    files = sorted((shared / "models/ulfg/images").glob("*.jpg"))[:3]
    pictures = [cv2.cvtColor(cv2.resize(cv2.imread(str(file)), size[::-1]), cv2.COLOR_BGR2RGB) for file in files]
    return [((picture.astype(np.float32) - mean) * scale).transpose(2, 0, 1)[np.newaxis] for picture in pictures]


def test_rows_of_all_maps_are_decoded_as_the_networks_own_layers_do(shared_dir: Path) -> None:
    """RFB-320 is published with its box arithmetic, which gives corners, and without it."""
    folder = shared_dir / "models" / "ulfg"
    names = ["boxes", "scores"]
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    raw, whole = (
        onnxruntime.InferenceSession(str(folder / f"version-RFB-320{end}.onnx"), quiet)
        for end in ("_without_postprocessing", "")
    )
    with_moves, with_corners = published("rfb_320"), published("rfb_320")
    with_corners["heads"][0]["anchors"] = []
    moves, corners = (decoder(each, (240, 320)) for each in (with_moves, with_corners))
    found = 0
    for image in faces(shared_dir, (240, 320), 127.0, 1 / 128):
        ours = moves(dict(zip(names, raw.run(names, {"input": image}), strict=True)))
        theirs = corners(dict(zip(names, whole.run(names, {"input": image}), strict=True)))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
        found += int((ours[..., 2] > 0.5).sum())
    assert found >= 3


def test_maps_of_several_strides_are_decoded_as_their_authors_do(shared_dir: Path) -> None:
    """RetinaFace: two anchors a place, scores by class, against a decoder written for it alone."""
    network = in_opencv("retinaface", shared_dir)
    read = decoder(published("retinaface") | {"least_score": 0.125}, (640, 640))
    count = 0
    for image in faces(shared_dir, (640, 640), 0.0, 1.0):
        outputs = network(image)
        rows = read(outputs).reshape(-1, 7)
        rows = rows[rows[:, 0] >= 0]
        expected = retinaface_boxes(outputs)
        np.testing.assert_allclose(rows[:, 2], expected[:, 0], rtol=0, atol=1e-6)
        np.testing.assert_allclose(rows[:, 3:] * 640, expected[:, 1:], rtol=0, atol=0.05)
        read.check({name: values.shape[1:] for name, values in outputs.items()}, "")
        count += len(rows)
    assert count >= 10


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_scores_before_their_activation(activation: str) -> None:
    random = np.random.default_rng(0)
    head = {"boxes": "b", "scores": "s", "anchors": [{"stride": 8, "sides": [[8, 16]]}]}
    logits, moves = random.normal(0, 2, (3, 2, 4)), random.normal(0, 0.1, (4, 2, 4))
    odds = np.exp(logits)
    values = odds / odds.sum(axis=0) if activation == "softmax" else odds / (1 + odds)
    settings = {"heads": [head], "least_score": 0.0, "nms": 1.0}
    plain = decoder(settings, (16, 32))({"b": moves, "s": values})
    np.testing.assert_allclose(
        decoder(settings | {"activation": activation}, (16, 32))({"b": moves, "s": logits}), plain, atol=1e-6
    )
    for order in ("class_first", "anchor_first"):  # with one anchor a place both are the same
        again = decoder(settings | {"scores": order}, (16, 32))({"b": moves, "s": values})
        np.testing.assert_array_equal(again, plain)
    best = plain.reshape(-1, 7)[0]
    place = np.unravel_index(int(np.argmax(values[1])), (2, 4))
    dx, dy, dw, dh = moves[:, *place]
    middle = [(place[1] * 8 + 4 + 0.1 * dx * 8) / 32, (place[0] * 8 + 4 + 0.1 * dy * 16) / 16]
    half = [np.exp(0.2 * dw) * 8 / 64, np.exp(0.2 * dh) * 16 / 32]
    expected = [0, 1, values[1].max(), *np.subtract(middle, half), *np.add(middle, half)]
    np.testing.assert_allclose(best, expected, atol=1e-6)


def test_outputs_that_do_not_fit_are_refused() -> None:
    read = decoder({"heads": [{"boxes": "b", "scores": "s", "anchors": [{"stride": 8, "sides": [8]}]}]}, (16, 32))
    read.check({"b": (4, 2, 4), "s": (2, 2, 4)}, "")
    for shapes, reason in (
        ({"b": (4, 2, 4)}, "the network has no output 's'"),
        ({"b": (8, 2, 4), "s": (2, 2, 4)}, "64 values in 'b' and 16 in 's' are not 4 and as many"),
        ({"b": (4, 2, 4), "s": (9,)}, "for anchors on maps of 2 x 4"),
    ):
        with pytest.raises(RecipeError, match=re.escape(reason)):
            read.check(shapes, "recipe.yaml:1:1")
    mixed = [{"boxes": "b", "scores": "s"}, {"boxes": "c", "scores": "d", "anchors": [{"stride": 8, "sides": [8]}]}]
    with pytest.raises(ValidationError, match="some heads have anchors and some have none"):
        decoder({"heads": mixed}, (16, 32))
