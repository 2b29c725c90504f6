"""DetectionOutput in C against its definition in numpy, and its memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from segment_networks import network

from nnkit.cpu_segments import segment_source
from nnkit.custom_ops import DetectionOutput

Check = Callable[..., None]


SSD = DetectionOutput(num_classes=3, nms_threshold=0.45, code_type="CENTER_SIZE", confidence_threshold=0.3)
VARIANTS = {
    "all": SSD,
    "top_k": replace(SSD, top_k=9),
    "keep": replace(SSD, top_k=30, keep_top_k=5),
    "keep_many": replace(SSD, keep_top_k=400),
    "no_background": replace(SSD, background_label_id=-1, keep_top_k=20),
    "other_background": replace(SSD, background_label_id=1),
    "corner": replace(SSD, code_type="CORNER", clip=True),
    "corner_size": replace(SSD, code_type="CORNER_SIZE"),
    "encoded": replace(SSD, variance_encoded_in_target=True),
    "eta": replace(SSD, nms_threshold=0.8, eta=0.9),
    "strict": replace(SSD, confidence_threshold=2.0),
    "own_boxes": replace(SSD, share_location=False, keep_top_k=50),
}


def ssd_inputs(priors: int, classes: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """Random boxes; scores in steps of 1/32, so that many are equal."""
    random = np.random.default_rng(seed)
    low = random.uniform(0, 0.7, (priors, 2))
    corners = np.concatenate([low, low + random.uniform(0.05, 0.4, (priors, 2))], axis=1)
    boxes = np.stack([corners.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], priors)])
    scores = np.round(random.uniform(size=(1, priors * classes)) * 32) / 32
    location = random.normal(size=(1, priors * 4))
    every = random.normal(size=(1, priors * classes * 4))
    arrays = {"location": location, "confidence": scores, "priors": boxes[None], "own": every}
    return {name: array.astype(np.float32) for name, array in arrays.items()}


@pytest.mark.parametrize("seed", [1, 2])
def test_detection_output(agrees: Check, seed: int) -> None:
    nodes = [
        op.node(["location" if op.share_location else "own", "confidence", "priors"], [name])
        for name, op in VARIANTS.items()
    ]
    agrees(nodes, ssd_inputs(60, 3, seed))


def test_static_memory_of_a_large_ssd_detector() -> None:
    """The published implementation needs about 500 KB for 5 classes and 8732 priors."""
    shapes = {"location": (1, 8732 * 4), "confidence": (1, 8732 * 5), "priors": (1, 2, 8732 * 4)}
    inputs = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    usual = replace(SSD, num_classes=5, top_k=400, keep_top_k=200)
    variants = {
        "usual": usual,
        "worst": replace(usual, top_k=-1),
        "unlimited": replace(usual, top_k=-1, keep_top_k=-1),
    }
    sizes = {
        name: segment_source(network([op.node(list(shapes), ["y"])], inputs, {}), "ssd").arena_bytes
        for name, op in variants.items()
    }
    # An index for each box of a class that may be looked at, and 7 values for each of keep_top_k and, of one class
    # more, as many: no class can have more among the best of all.
    assert sizes["usual"] == pytest.approx(4 * (400 + 400 * 7), abs=32)
    assert sizes["worst"] == pytest.approx(4 * (8732 + 400 * 7), abs=32)
    assert sizes["unlimited"] == pytest.approx(4 * 8732, abs=32)
    assert max(sizes.values()) < 160_000
