"""Bilinear resizing as the cv18xx are given it: against ONNX Runtime, and on the vendor's chip model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.simulate import simulate
from nnkit_tpu.chip_forms import for_chip
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuInterp, TpuMatMul
from nnkit_tpu.quantize import Precision, to_program
from nnkit_tpu.toolchain import Toolchain


def _resized(net: Net, source: str, factors: tuple[int, int], coordinates: str, to: str) -> str:
    scales = net.constant([1, 1, *factors])
    how = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    return net("Resize", source, "", scales, to=to, **how)


@pytest.mark.parametrize("coordinates", ["align_corners", "half_pixel", "pytorch_half_pixel"])
@pytest.mark.parametrize(
    ("factors", "stride"), [((2, 2), 1), ((3, 2), 1), ((4, 5), 1), ((1, 3), 1), ((2, 2), 3), ((16, 2), 1)]
)
def test_layers_are_the_resize(coordinates: str, factors: tuple[int, int], stride: int) -> None:
    """A small map, with stride 3, is enlarged by one matrix."""
    net = Net()
    pooled = net("MaxPool", "x", kernel_shape=[stride] * 2, strides=[stride] * 2)
    model = net.model([_resized(net, pooled, factors, coordinates, "y")])
    graph = for_chip(lower(model, "net", "cv181x"), "cv181x", "INT8")
    assert not any(isinstance(op, TpuInterp) for op in graph.ops)
    at_once = coordinates == "align_corners" and stride > 1
    assert any(isinstance(op, TpuMatMul) and np.shape(op.weight) == (12, 48) for op in graph.ops) == at_once
    x = net.random.normal(0, 1, model.inputs[0].shape).astype(np.float32)
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    computed = simulate(to_program(graph, {}, Precision("cv181x", "F32")), {"x": x[0]})["y"]
    assert computed.shape == expected[0].shape
    assert np.abs(computed - expected[0]).max() < 1e-5


def test_the_chip_model_agrees(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """In integers: the compiler would leave aligned corners to the host's runtime."""
    net = Net()
    small = net("Conv", "x", net.normal(6, 8, 1, 1))
    smaller = net("Conv", "x", net.normal(16, 8, 2, 2), strides=[2, 2])
    outputs = [
        _resized(net, smaller, (2, 2), "align_corners", "whole"),
        _resized(net, small, (2, 2), "align_corners", "aligned"),
        _resized(net, small, (2, 2), "half_pixel", "even"),
        _resized(net, small, (3, 2), "pytorch_half_pixel", "odd"),
        _resized(net, small, (1, 2), "half_pixel", "wide"),
        _resized(net, small, (3, 1), "half_pixel", "high"),
        _resized(net, smaller, (16, 3), "half_pixel", "far"),
    ]
    report = built(net.model(outputs), "chip: cv181x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert not any("runs in BF16" in note for note in report["quantization_notes"])


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x"])
def test_maps_are_joined_at_one_size(tpu_toolchain: Toolchain, tmp_path: Path, chip: str) -> None:
    """As by SegFormer, which resizes the largest map, too, to its own size, and by PSPNet, whose maps have 3 or 6
    pixels a side; and by DPT, whose last resizing has no whole factor."""
    net = Net()
    own = net("Conv", "x", net.normal(6, 8, 1, 1))
    half = net("Conv", "x", net.normal(6, 8, 2, 2), strides=[2, 2])
    third = net("AveragePool", own, kernel_shape=[2, 3], strides=[2, 3])
    sizes = net.ints(1, 6, 12, 10)
    linear = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    joined = [net("Resize", part, "", "", sizes, **linear) for part in (own, half, third)]
    fused = net("Conv", net("Concat", *joined, axis=1), net.normal(4, 18, 1, 1), to="fused")
    aligned = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    outputs = [
        net("Resize", fused, "", "", net.ints(1, 4, 21, 17), to="larger", **aligned),
        net("Resize", fused, "", "", net.ints(1, 4, 18, 9), to="repeated", mode="nearest"),
    ]
    report = built(net.model(outputs), f"chip: {chip}", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    assert report["verify"]["float_vs_program"]["cosine"] > 0.999


@pytest.mark.parametrize("rectified", [True, False])
def test_between_the_products_of_a_resize_no_step_is_left_unused(
    tpu_toolchain: Toolchain, tmp_path: Path, rectified: bool
) -> None:
    """Of a map without negative values the chip has 7 bits; moved around zero, 8, and so has what the first product
    makes of it: for the same range the map has 255 steps, and half of it 127."""
    net = Net()
    read = net("Conv", "x", net.normal(6, 8, 1, 1), to="plain")
    read = net("Relu", read, to="read") if rectified else read
    report = built(net.model([_resized(net, read, (2, 2), "align_corners", "y")]), "chip: cv181x", tmp_path)
    assert refuted(report) == []
    assert report["status"] == "ok"
    (between,) = (layer for layer in report["layers"] if layer["name"].endswith("_heights"))
    given, made = (float(between["formats"][key].split()[2].rstrip(",")) for key in ("input0", "output"))
    assert made == pytest.approx(given * (255 / 254 if rectified else 1), rel=1e-4)
    assert ("zero at -128" in between["formats"]["input0"]) == rectified
