"""Thresholds that the compiler takes for granted."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_what_is_moved_from_a_sigmoid_reaches_up_to_one(tpu_toolchain: object, tmp_path: Path, chip: str) -> None:
    """As a gate that is computed on a smaller image; room for unseen numbers made its range wider than that."""
    net = Net()
    small = net("AveragePool", "x", kernel_shape=[12, 10], strides=[12, 10])
    gate = net("Sigmoid", net("Conv", small, net.normal(8, 8, 1, 1, spread=20.0)), to="gate")
    wide = net("Resize", gate, "", net.constant([1.0, 1.0, 2.0, 2.0]), mode="nearest", to="wide")
    image = net("MaxPool", net("Conv", "x", net.normal(8, 8, 1, 1)), kernel_shape=[6, 5], strides=[6, 5])
    model = net.model([net("Mul", image, wide, to="gated")])
    report = built(model, f"chip: {chip}", tmp_path, corrections=["room_for_unseen"], method="kl")
    assert report["status"] == "ok"
    assert not refuted(report)
    assert not report["details"]["prediction"]["disagreements"]


@pytest.mark.parametrize("shape", [(1, 8, 12, 10), (1, 2, 4, 120, 1), (1, 2, 480, 1, 1)])
def test_a_softmax_over_channels_of_more_than_images_is_predicted_in_floating_point(
    tpu_toolchain: object, tmp_path: Path, shape: tuple[int, ...]
) -> None:
    """As attention among kernels has it, between two branches."""
    net = Net()
    scores = net("Reshape", net("Conv", "x", net.normal(8, 8, 1, 1)), net.ints(*shape))
    model = net.model([net("Mul", net("Softmax", scores, axis=1, to="shares"), scores, to="weighed")])
    report = built(model, "chip: bm1684x", tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)
    assert not report["details"]["prediction"]["disagreements"]
