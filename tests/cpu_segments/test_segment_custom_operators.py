"""The operators of ai.nnkit in C, under sanitizers, against their numpy definition (itself held to OpenCV)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import helper
from segment_networks import network

from nnkit.cpu_segments import CompiledSegment, emit_segment, segment_source
from nnkit.custom_ops import (
    Custom,
    DetectionOutput,
    Normalize,
    PassThrough,
    PriorBox,
    Proposal,
    PSROIPooling,
    Reorg,
    ROIPooling,
    WarpPerspective,
)
from nnkit.errors import ModelError

Check = Callable[..., None]


def uniform(*shape: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).uniform(size=shape).astype(np.float32)


def test_layers_that_move_values(agrees: Check) -> None:
    nodes = [
        PassThrough(2, 3).node(["x"], ["pass"]),
        Reorg(2).node(["x"], ["reorg"]),
        Reorg(2, reverse=True).node(["x"], ["back"]),
        PriorBox((20.0, 31.5), (50.5, 70.0), (2.0, 3.0), variance=(0.1, 0.1, 0.2, 0.2)).node(
            ["x", "image"], ["boxes"]
        ),
    ]
    agrees(nodes, {"x": uniform(1, 8, 6, 12), "image": uniform(1, 3, 64, 96)}, rtol=0, atol=0)


def test_normalize(agrees: Check) -> None:
    nodes = [
        Normalize(across, shared).node(["x", "one" if shared else "many"], [f"n{across}{shared}"])
        for across, shared in product((False, True), repeat=2)
    ]
    nodes.append(Normalize().node(["x"], ["no_scale"]))
    agrees(nodes, {"x": uniform(1, 7, 5, 6)}, {"one": np.array([20.0], np.float32), "many": uniform(7)}, rtol=4e-6)


def test_pooling_of_regions(agrees: Check) -> None:
    rois = np.array([[0, 0, 0, 15, 15], [0, 3.4, 2.6, 9.5, 13.2], [-1, 0, 0, 0, 0], [0, 20, 4, 40, 50]], np.float32)
    rois = np.concatenate([rois, [[0, 8, 8, 8, 8], [0, 11, 12, 30, 20], [0, -9, -7, 3, 30], [0, 9, 9, 2, 2]]])
    nodes = [
        ROIPooling(3, 4, 0.5).node(["x", "rois"], ["roi"]),
        PSROIPooling(2, 3, 0.5).node(["x", "rois"], ["psroi"]),
    ]
    agrees(nodes, {"x": uniform(1, 18, 12, 14), "rois": rois.astype(np.float32)})


def test_warp(agrees: Check) -> None:
    matrices = {
        "rotation": [[0.9, -0.3, 4.0], [0.3, 0.9, -2.0], [0, 0, 1]],
        "perspective": [[0.8, 0.1, 3.0], [-0.2, 1.1, 2.0], [0.004, -0.003, 1]],
        "horizon": [[1, 0, 0], [0, 1, 0], [0.1, 0.05, -1]],
        "singular": [[1, 2, 0], [2, 4, 0], [0, 0, 1]],
        "endless": [[1e30, 0, 1e30], [0, 1e30, 1e30], [0, 0, 1e-30]],
    }
    inputs = {"x": uniform(1, 2, 12, 15)} | {n: np.array([m], np.float32) for n, m in matrices.items()}
    nodes = []
    for name, direction, sampling, border in product(
        matrices, ("forward", "inverse"), ("nearest", "bilinear"), ("constant", "replicate")
    ):
        op = WarpPerspective(direction, sampling, border, border_value=0.25, out_h=10, out_w=9)
        nodes.append(op.node(["x", name], [f"{name}_{direction}_{sampling}_{border}"]))
    nodes.append(WarpPerspective().node(["x", "eight"], ["eight_values"]))
    inputs["eight"] = inputs["perspective"].reshape(1, 9)[:, :8].copy()
    agrees(nodes, inputs)


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


def test_proposal(agrees: Check) -> None:
    random = np.random.default_rng(4)
    scores = np.round(random.uniform(size=(1, 18, 6, 7)) * 64) / 64
    inputs = {
        "scores": scores.astype(np.float32),
        "deltas": (random.normal(size=(1, 36, 6, 7)) * 0.2).astype(np.float32),
        "info": np.array([[96, 112, 1.5]], np.float32),
    }
    op = Proposal(scale=(1.0, 2.0, 4.0), pre_nms_topn=100, post_nms_topn=20, min_size=8.0)
    variants = {
        "some": op,
        "many": replace(op, post_nms_topn=300, pre_nms_topn=6000),
        "large": replace(op, min_size=60.0),
    }
    nodes = [variant.node(["scores", "deltas", "info"], [name]) for name, variant in variants.items()]
    # coordinates of up to 112 pixels: a unit in the last place of exp
    agrees(nodes, inputs, atol=3e-5)


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
    # The indices of the priors, and 7 values for each of keep_top_k + one class; parts are aligned to 16 bytes.
    assert sizes["usual"] == pytest.approx(4 * (8732 + 600 * 7), abs=32)
    assert sizes["worst"] == pytest.approx(4 * (8932 + 8932 * 7), abs=32)
    assert sizes["unlimited"] == pytest.approx(4 * 8732, abs=32)
    assert sizes["worst"] < 300_000


def test_a_custom_layer_is_refused_with_all_others() -> None:
    nodes = [Custom.of([(1, 3)], "MyLayer").node(["x"], ["a"], "mine"), helper.make_node("Erf", ["x"], ["b"], "erf")]
    with pytest.raises(ModelError) as caught:
        segment_source(network(nodes, {"x": uniform(1, 3)}, {}), "part")
    assert "mine (Custom)" in caught.value.reason
    assert "erf (Erf)" in caught.value.reason


def test_a_compiled_segment_keeps_no_state(tmp_path: Path) -> None:
    model = network([SSD.node(["location", "confidence", "priors"], ["y"])], ssd_inputs(40, 3, 1), {})
    emit_segment(model, "part", tmp_path)
    program = CompiledSegment(tmp_path, "part")
    first = program.run(ssd_inputs(40, 3, 1))["y"]
    program.run(ssd_inputs(40, 3, 2))
    np.testing.assert_array_equal(program.run(ssd_inputs(40, 3, 1))["y"], first)
    program.close()
