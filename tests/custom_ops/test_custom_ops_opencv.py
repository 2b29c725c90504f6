"""Operators of ai.nnkit against OpenCV: the layers of a real SSD, and small networks written as prototxt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.custom_ops import (
    DetectionOutput,
    Normalize,
    PriorBox,
    Proposal,
    PSROIPooling,
    Reorg,
    ROIPooling,
    WarpPerspective,
)

RES10 = DetectionOutput(
    num_classes=2,
    nms_threshold=0.45,
    top_k=400,
    code_type="CENTER_SIZE",
    keep_top_k=200,
    confidence_threshold=0.01,
    clip=True,
)


def opencv(text: str, inputs: dict[str, NDArray[np.float32]], output: str) -> NDArray[np.float32]:
    """`output` of a prototxt without weights."""
    head = "".join(
        f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ '
        + " ".join(f"dim: {size}" for size in array.shape)
        + " } } }\n"
        for name, array in inputs.items()
    )
    net = cv2.dnn.readNetFromCaffe(np.frombuffer((head + text).encode(), np.uint8))
    for name, array in inputs.items():
        net.setInput(array, name)
    return np.asarray(net.forward(output))


@pytest.fixture(scope="module")
def ssd(shared_dir: Path) -> Any:
    folder = shared_dir / "models" / "res10_ssd"
    return cv2.dnn.readNetFromCaffe(
        str(folder / "res10_300x300_deploy.prototxt"), str(folder / "res10_300x300_ssd_from_uint8.caffemodel")
    )


def images(shared_dir: Path, count: int) -> Sequence[NDArray[np.uint8]]:
    files = sorted((shared_dir / "models" / "ulfg" / "images").iterdir())[:count]
    return [np.asarray(cv2.imread(str(file))) for file in files]


def test_detections_of_a_real_ssd_row_by_row(ssd: Any, shared_dir: Path) -> None:
    rows = 0
    for image in images(shared_dir, 6):
        ssd.setInput(cv2.dnn.blobFromImage(image, 1, (300, 300), (104, 177, 123)))
        names = ["mbox_loc", "mbox_conf_flatten", "mbox_priorbox", "detection_out"]
        location, confidence, priors, expected = ssd.forward(names)
        found = RES10.run(location, confidence, priors)[0][0, 0]
        count = int((expected[0, 0, :, 2] > 0).sum())
        assert int((found[:, 0] == 0).sum()) == count
        # one rounding of exp or of the sum of a corner, coordinates up to 1
        np.testing.assert_allclose(found[:count], expected[0, 0, :count], atol=2e-7, rtol=0)
        assert np.all(found[count:, 0] == -1)
        assert np.all(found[count:, 1:] == 0)
        rows += count
    assert rows > 300


VARIANTS: dict[str, dict[str, Any]] = {
    "center": {},
    "corner": {"code_type": "CORNER"},
    "clip": {"clip": True},
    "top_k": {"top_k": 9},
    "keep": {"keep_top_k": 5},
    "background": {"background_label_id": 1},
    "own_boxes": {"share_location": False},
    "none": {"confidence_threshold": 2.0},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_detections_of_three_classes(name: str) -> None:
    random = np.random.default_rng(len(name))
    low = random.uniform(0, 0.7, (60, 2))
    corners = np.concatenate([low, low + random.uniform(0.05, 0.4, (60, 2))], axis=1)
    priors = np.stack([corners.reshape(-1), np.tile([0.1, 0.1, 0.2, 0.2], 60)])[None].astype(np.float32)
    confidence = (random.permutation(180).reshape(1, 180) / 180).astype(np.float32)  # no two are equal
    common: dict[str, Any] = {"num_classes": 3, "nms_threshold": 0.45, "code_type": "CENTER_SIZE", "top_k": 60}
    op = DetectionOutput(**common | {"keep_top_k": 150, "confidence_threshold": 0.3} | VARIANTS[name])
    location = random.normal(size=(1, 240 if op.share_location else 720)).astype(np.float32)
    text = 'layer { name: "d" type: "DetectionOutput" bottom: "l" bottom: "c" bottom: "p" top: "d" '
    text += f"detection_output_param {{ num_classes: 3 share_location: {str(op.share_location).lower()} "
    text += f"background_label_id: {op.background_label_id} code_type: {op.code_type} keep_top_k: {op.keep_top_k} "
    text += f"nms_param {{ nms_threshold: 0.45 top_k: {op.top_k} }} clip: {str(op.clip).lower()} "
    text += f"confidence_threshold: {op.confidence_threshold} }} }}"
    expected = opencv(text, {"l": location, "c": confidence, "p": priors}, "d")[0, 0]
    expected = expected[expected[:, 2] > 0]
    found = op.run(location, confidence, priors)[0][0, 0]
    found = found[found[:, 0] == 0]
    assert len(found) == len(expected)
    assert bool(len(found)) == (name != "none")
    assert np.all(np.diff(found[:, 1]) >= 0)
    # OpenCV orders the rows of several classes by confidence, Caffe by class first.
    expected = expected[np.lexsort((-expected[:, 2], expected[:, 1]))]
    np.testing.assert_allclose(found, expected, atol=2e-7, rtol=0)


def test_prior_boxes_of_a_real_ssd(ssd: Any, shared_dir: Path) -> None:
    image = np.zeros((300, 300, 3), np.uint8)
    ssd.setInput(cv2.dnn.blobFromImage(image, 1, (300, 300), (104, 177, 123)))
    (expected,) = ssd.forward(["mbox_priorbox"])
    steps = ((38, 8.0), (19, 16.0), (10, 32.0), (5, 64.0), (3, 100.0), (1, 300.0))
    sizes = (30.0, 60.0, 111.0, 162.0, 213.0, 264.0, 315.0)
    found = []
    for level, (side, step) in enumerate(steps):
        op = PriorBox(
            min_size=(sizes[level],),
            max_size=(sizes[level + 1],),
            aspect_ratio=(2.0, 3.0) if 0 < level < 4 else (2.0,),
            variance=(0.1, 0.1, 0.2, 0.2),
            step=step,
        )
        found.append(op.run(np.zeros((1, 4, side, side), np.float32), np.zeros((1, 3, 300, 300), np.float32))[0])
    np.testing.assert_allclose(np.concatenate(found, axis=2), expected, atol=2e-7, rtol=0)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("ratios", [(), (2.0,), (2.0, 0.5, 3.0)])
@pytest.mark.parametrize("max_size", [(), (50.5, 70.0)])
def test_prior_boxes_of_small_networks(clip: bool, ratios: tuple[float, ...], max_size: tuple[float, ...]) -> None:
    feature, image = np.zeros((1, 2, 3, 5), np.float32), np.zeros((1, 3, 64, 96), np.float32)
    op = PriorBox(min_size=(20.0, 31.5), max_size=max_size, aspect_ratio=ratios, clip=clip, variance=(0.2,))
    text = 'layer { name: "p" type: "PriorBox" bottom: "f" bottom: "i" top: "p" prior_box_param { '
    text += "min_size: 20 min_size: 31.5 " + "".join(f"max_size: {size} " for size in max_size)
    text += "".join(f"aspect_ratio: {ratio} " for ratio in ratios)
    text += f"flip: true clip: {str(clip).lower()} variance: 0.2 offset: 0.5 }} }}"
    expected = opencv(text, {"f": feature, "i": image}, "p")
    np.testing.assert_allclose(op.run(feature, image)[0], expected, atol=2e-7, rtol=0)


@pytest.mark.parametrize("across", [False, True])
def test_normalize_against_its_formula(across: bool) -> None:
    x = np.random.default_rng(1).normal(size=(1, 7, 5, 6)).astype(np.float32)
    op = Normalize(across_spatial=across, channel_shared=True)
    weighted = op.run(x, np.array([20.0], np.float32))[0]
    axes = (1, 2, 3) if across else 1
    expected = x / np.sqrt((x.astype(np.float64) ** 2).sum(axis=axes, keepdims=True))
    np.testing.assert_allclose(op.run(x)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(weighted, 20 * expected, rtol=1e-6)


def test_normalize_of_a_real_ssd(ssd: Any, shared_dir: Path) -> None:
    ssd.setInput(cv2.dnn.blobFromImage(images(shared_dir, 1)[0], 1, (300, 300), (104, 177, 123)))
    (expected,) = ssd.forward(["conv4_3_norm"])
    scale = np.asarray(ssd.getParam("conv4_3_norm", 0), np.float32).reshape(-1)
    # The norm of the scaled result over the channels undoes the layer but for the length of its input.
    direction = expected / scale.reshape(1, -1, 1, 1)
    lengths = np.linspace(0.5, 3, direction.shape[2] * direction.shape[3], dtype=np.float32)
    x = direction * lengths.reshape(1, 1, *direction.shape[2:])
    op = Normalize(across_spatial=False, channel_shared=False)
    np.testing.assert_allclose(op.run(x, scale)[0], expected, rtol=2e-6, atol=1e-6)


ROIS = np.array(
    [[0, 0, 0, 15, 15], [0, 3.4, 2.6, 9.5, 13.2], [0, 8, 8, 8, 8], [0, 20, 4, 40, 50], [0, 11, 12, 30, 20]],
    np.float32,
)


def test_roi_pooling() -> None:
    x = np.random.default_rng(2).normal(size=(1, 3, 12, 14)).astype(np.float32)
    text = 'layer { name: "r" type: "ROIPooling" bottom: "x" bottom: "rois" top: "r" roi_pooling_param { '
    text += "pooled_h: 3 pooled_w: 4 spatial_scale: 0.5 } }"
    expected = opencv(text, {"x": x, "rois": ROIS}, "r")
    np.testing.assert_array_equal(ROIPooling(pooled_h=3, pooled_w=4, spatial_scale=0.5).run(x, ROIS)[0], expected)


def test_psroi_pooling() -> None:
    x = np.random.default_rng(3).normal(size=(1, 18, 12, 14)).astype(np.float32)
    text = 'layer { name: "r" type: "PSROIPooling" bottom: "x" bottom: "rois" top: "r" psroi_pooling_param { '
    text += "output_dim: 2 group_size: 3 spatial_scale: 0.5 } }"
    expected = opencv(text, {"x": x, "rois": ROIS}, "r")
    found = PSROIPooling(output_dim=2, group_size=3, spatial_scale=0.5).run(x, ROIS)[0]
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)


def test_unused_rows_pool_to_zeros() -> None:
    x = np.ones((1, 4, 6, 6), np.float32)
    rois = np.array([[-1, 0, 0, 0, 0], [0, 0, 0, 5, 5]], np.float32)
    for op in (ROIPooling(pooled_h=2, pooled_w=2), PSROIPooling(output_dim=1, group_size=2)):
        y = op.run(x, rois)[0]
        assert np.all(y[0] == 0)
        assert np.all(y[1] == 1)


def test_proposal() -> None:
    random = np.random.default_rng(4)
    scores = random.uniform(size=(1, 18, 6, 7)).astype(np.float32)
    deltas = (random.normal(size=(1, 36, 6, 7)) * 0.2).astype(np.float32)
    info = np.array([[96, 112, 1]], np.float32)
    text = 'layer { name: "p" type: "Proposal" bottom: "s" bottom: "d" bottom: "i" top: "p" proposal_param { '
    text += "feat_stride: 16 base_size: 16 ratio: 0.5 ratio: 1 ratio: 2 scale: 1 scale: 2 scale: 4 "
    text += "pre_nms_topn: 100 post_nms_topn: 20 nms_thresh: 0.7 min_size: 0 } }"
    expected = opencv(text, {"s": scores, "d": deltas, "i": info}, "p")
    op = Proposal(scale=(1.0, 2.0, 4.0), pre_nms_topn=100, post_nms_topn=20, nms_thresh=0.7, min_size=0.0)
    found = op.run(scores, deltas, info)[0]
    np.testing.assert_allclose(found, expected.reshape(-1, 5), atol=1e-4, rtol=0)


def test_reorg() -> None:
    # Darknet's own reader: a network of one [reorg] layer.
    x = np.random.default_rng(5).normal(size=(1, 8, 6, 4)).astype(np.float32)
    text = "[net]\nwidth=4\nheight=6\nchannels=8\nbatch=1\n[reorg]\nstride=2\n"
    net = cv2.dnn.readNetFromDarknet(np.frombuffer(text.encode(), np.uint8))
    net.setInput(x)
    found = Reorg(stride=2).run(x)[0]
    np.testing.assert_array_equal(found, np.asarray(net.forward()))
    # The other direction writes where this one reads: on a map of the same numbers it undoes it.
    back = Reorg(stride=2, reverse=True).run(found.reshape(x.shape))[0]
    assert back.shape == (1, 2, 12, 8)
    np.testing.assert_array_equal(back.reshape(x.shape), x)


MATRICES = {
    "shift": [[1, 0, 2], [0, 1, -3], [0, 0, 1]],
    "half_pixels": [[1, 0, 0.5], [0, 1, 0.25], [0, 0, 1]],
    "rotation": [[0.9, -0.3, 4.0], [0.3, 0.9, -2.0], [0, 0, 1]],
    "perspective": [[0.8, 0.1, 3.0], [-0.2, 1.1, 2.0], [0.004, -0.003, 1]],
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("direction", ["forward", "inverse"])
@pytest.mark.parametrize("border", ["constant", "replicate"])
@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_warp_perspective(name: str, direction: str, border: str, interpolation: str) -> None:
    x = np.random.default_rng(6).uniform(size=(1, 3, 20, 30)).astype(np.float32)
    # OpenCV reads its matrix in double: the same numbers on both sides, those of float32.
    matrix = np.array(MATRICES[name], np.float32)
    op = WarpPerspective(direction, interpolation, border, border_value=0.25, out_h=24, out_w=18)
    found = op.run(x, matrix[None])[0]
    flags = cv2.INTER_NEAREST if interpolation == "nearest" else cv2.INTER_LINEAR
    flags |= cv2.WARP_INVERSE_MAP if direction == "inverse" else 0
    mode = cv2.BORDER_CONSTANT if border == "constant" else cv2.BORDER_REPLICATE
    expected = [
        cv2.warpPerspective(
            plane, matrix.astype(np.float64), (18, 24), flags=flags, borderMode=mode, borderValue=0.25
        )
        for plane in x[0]
    ]
    # OpenCV rounds bilinear coordinates to 1/32 pixel: at most 1/64 off in either direction, for values in 0..1.
    tolerance = 0 if interpolation == "nearest" else 2 / 64 + 1e-6
    np.testing.assert_allclose(found[0], np.stack(expected), atol=tolerance, rtol=0)


def test_a_matrix_of_eight_values_ends_with_one() -> None:
    x = np.random.default_rng(7).uniform(size=(1, 1, 5, 5)).astype(np.float32)
    matrix = np.array(MATRICES["perspective"], np.float32).reshape(1, 9)
    op = WarpPerspective("inverse")
    np.testing.assert_array_equal(op.run(x, matrix)[0], op.run(x, matrix[:, :8])[0])


def test_a_singular_or_endless_matrix_stays_defined() -> None:
    x = np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3)
    singular = WarpPerspective("forward", "nearest").run(x, np.zeros((1, 3, 3), np.float32))[0]
    assert np.all(singular == 1)
    far = np.array([[1e30, 0, 1e30], [0, 1e30, 1e30], [0, 0, 1e-30]], np.float32)
    assert np.all(WarpPerspective("inverse", "bilinear").run(x, far)[0] == 0)
    assert np.all(WarpPerspective("inverse", "bilinear", "replicate").run(x, far)[0] == 9)
