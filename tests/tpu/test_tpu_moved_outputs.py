"""Outputs of a network that are transposed, and numbers behind what a convolution's result is moved by."""

from __future__ import annotations

from pathlib import Path

import pytest
from tpu_build import built, refuted
from tpu_net import Net


def _image(net: Net) -> str:
    return net("Conv", "x", net.normal(8, 8, 1, 1))


@pytest.mark.parametrize("options", ["chip: cv181x", "chip: cv181x, precision: bf16", "chip: bm1684x"])
@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((1, 8, 12, 10), (0, 2, 1, 3)),
        ((1, 10, 96, 1), (0, 2, 1, 3)),
        ((1, 2, 4, 12, 10), (0, 2, 1, 3, 4)),
        ((1, 2, 4, 12, 10), (0, 1, 3, 2, 4)),
        ((1, 8, 12, 10), (0, 2, 3, 1)),
        ((1, 12, 80), (0, 2, 1)),
    ],
)
def test_a_transposed_output_is_right(
    tpu_toolchain: object, tmp_path: Path, shape: tuple[int, ...], order: tuple[int, ...], options: str
) -> None:
    """On the cv18xx an exchange of axes before the last one gave other values where it was an output."""
    net = Net()
    turned = net("Transpose", net("Reshape", _image(net), net.ints(*shape)), perm=order, to="turned")
    report = built(net.model([turned]), options, tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999


@pytest.mark.parametrize("options", ["chip: cv181x", "chip: bm1684x", "chip: bm1688, precision: f16"])
def test_a_rectified_output_behind_a_transposition_keeps_its_name(
    tpu_toolchain: object, tmp_path: Path, options: str
) -> None:
    """The compiler moves the ReLU into the convolution; the model had no value of the output's name."""
    net = Net()
    model = net.model([net("Relu", net("Transpose", _image(net), perm=[0, 2, 1, 3]), to="rectified")])
    report = built(model, options, tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x"])
def test_a_number_behind_a_reshaped_convolution_is_in_its_weights(
    tpu_toolchain: object, tmp_path: Path, chip: str
) -> None:
    """As of the query and key of a CoAtNet. The compiler ended for want of the threshold of what it made of these."""
    net = Net()
    small = net("MaxPool", "x", kernel_shape=[6, 5], strides=[6, 5])
    joined = net("Reshape", net("Conv", small, net.normal(48, 8, 1, 1)), net.ints(1, 2, 24, 4))
    query, key, value = (
        net("Slice", joined, net.ints(start), net.ints(start + 8), net.ints(2)) for start in (0, 8, 16)
    )
    turned = net("Mul", net("Transpose", query, perm=[0, 1, 3, 2]), net.constant(0.5))
    scores = net("MatMul", turned, net("Mul", key, net.constant(0.5)))
    biased = net("Add", scores, net.normal(1, 2, 4, 4))
    mixed = net("MatMul", net("Softmax", biased, axis=-1), net("Transpose", value, perm=[0, 1, 3, 2]))
    mixed = net("Reshape", net("Transpose", mixed, perm=[0, 1, 3, 2]), net.ints(1, 16, 2, 2))
    report = built(net.model([net("Conv", mixed, net.normal(4, 16, 1, 1), to="out")]), f"chip: {chip}", tmp_path)
    assert report["status"] == "ok"
    assert not refuted(report)
