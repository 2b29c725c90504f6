"""SSDs in C: a published detector row by row, and its last layer on tensors from files. OpenCV is the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from ansi_c_library import library, outputs
from numpy.typing import NDArray
from segment_networks import network

from nnkit.custom_ops import DetectionOutput
from nnkit.importers import import_caffe

FAST = ("-O2", "-ffp-contract=off")


def in_order(rows: NDArray[Any]) -> NDArray[Any]:
    """By class, then by confidence, as Caffe has them; OpenCV orders all by confidence."""
    return rows[np.lexsort((-rows[:, 2], rows[:, 1]))]


def test_a_published_detector_gives_the_rows_of_opencv(tmp_path: Path, shared_dir: Path) -> None:
    folder = shared_dir / "models" / "res10_ssd"
    weights = folder / "res10_300x300_ssd_from_uint8.caffemodel"
    program = library(import_caffe(folder / "res10_300x300_deploy.prototxt", weights).model, tmp_path)
    reference = cv2.dnn.readNetFromCaffe(str(folder / "res10_300x300_deploy.prototxt"), str(weights))
    rows = 0
    for file in sorted((shared_dir / "models" / "ulfg" / "images").iterdir())[:3]:
        blob = cv2.dnn.blobFromImage(cv2.imread(str(file)), 1, (300, 300), (104, 177, 123))
        reference.setInput(blob)
        expected = reference.forward()[0, 0]
        expected = expected[expected[:, 2] > 0]
        (name,) = program.inputs
        found = outputs(tmp_path, program, {name: blob}, FAST)[program.outputs[0]].reshape(-1, 7)
        found = found[found[:, 0] == 0]
        assert len(found) == len(expected)
        np.testing.assert_allclose(found, in_order(expected), atol=1e-4, rtol=0)
        rows += len(found)
    assert rows > 150


def test_the_layer_alone_on_tensors_from_files(tmp_path: Path) -> None:
    """SSD300's sizes, 8732 priors and 21 classes: 288,156 numbers go in."""
    priors, classes = 8732, 21
    random = np.random.default_rng(4)
    low = random.uniform(0, 0.8, (priors, 2))
    boxes = np.concatenate([low, low + random.uniform(0.05, 0.3, (priors, 2))], axis=1)
    location = random.normal(size=(1, priors * 4)).astype(np.float32)
    # no two scores of all are equal; one in twenty is above the threshold
    confidence = (random.permutation(priors * classes).reshape(1, -1) / (priors * classes)).astype(np.float32)
    given = {
        "location": location,
        "confidence": confidence,
        "priors": np.stack([boxes.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], priors)])[None].astype(np.float32),
    }
    assert sum(array.size for array in given.values()) > 280_000
    text = "".join(
        f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ '
        + " ".join(f"dim: {size}" for size in array.shape)
        + " } } }\n"
        for name, array in given.items()
    )
    text += (
        'layer { name: "d" type: "DetectionOutput" bottom: "location" bottom: "confidence" bottom: "priors" top: "d" '
        f"detection_output_param {{ num_classes: {classes} background_label_id: 0 share_location: true "
        "code_type: CENTER_SIZE keep_top_k: 200 confidence_threshold: 0.95 "
        "nms_param { nms_threshold: 0.45 top_k: 400 } } }"
    )
    reference = cv2.dnn.readNetFromCaffe(np.frombuffer(text.encode(), np.uint8))
    for name, array in given.items():
        reference.setInput(array, name)
    expected = reference.forward()[0, 0]
    op = DetectionOutput(
        num_classes=classes,
        nms_threshold=0.45,
        top_k=400,
        keep_top_k=200,
        code_type="CENTER_SIZE",
        confidence_threshold=0.95,
    )
    program = library(network([op.node(list(given), ["y"])], given, {}), tmp_path)
    found = outputs(tmp_path, program, given)["y"].reshape(-1, 7)
    assert found.shape == expected.shape == (200, 7)
    np.testing.assert_allclose(found, in_order(expected), atol=1e-6, rtol=0)
