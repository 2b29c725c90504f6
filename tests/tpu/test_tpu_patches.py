"""Convolutions of patches: products of rows, against ONNX Runtime, and on the vendor's chip model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tpu_build import built, refuted
from tpu_net import Net

from nnkit.graph import Model
from nnkit.simulate import simulate
from nnkit_tpu.chip_forms import for_chip
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import TpuConv, TpuMatMul, TpuPermute
from nnkit_tpu.quantize import Precision, to_program
from nnkit_tpu.toolchain import Toolchain


def _patches(group: int, rows: int, *, turned: bool = False, rectified: bool = False) -> Model:
    """Patches of 16 x 16 of an image of 8 channels and so many rows; turned: into rows, as transformers read them."""
    net = Net()
    image = net("Pad", "x", net.ints(0, 0, 0, 0, 0, 0, rows - 12, 22), to="image")
    weights = (net.normal(6 * group, 8 // group, 16, 16, spread=0.05), net.normal(6 * group))
    result = net("Conv", image, *weights, strides=[16, 16], group=group, to="embedded")
    if rectified:
        result = net("Relu", result)
    if turned:
        flat = net("Reshape", result, net.ints(1, 6 * group, -1))
        result = net("MatMul", net("Transpose", flat, perm=[0, 2, 1]), net.normal(6 * group, 4), to="features")
    return net.model([result])


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
@pytest.mark.parametrize(
    ("group", "rows", "turned", "rectified"),
    [(1, 32, False, False), (8, 32, False, True), (2, 38, False, False), (1, 38, True, False)],
)
def test_products_are_the_convolution(group: int, rows: int, turned: bool, rectified: bool, chip: str) -> None:
    model = _patches(group, rows, turned=turned, rectified=rectified)
    graph = for_chip(lower(model, "net", chip), chip, "INT8")
    assert not any(isinstance(op, TpuConv) for op in graph.ops)
    assert sum(isinstance(op, TpuPermute) and len(op.order) == 3 for op in graph.ops) == (0 if turned else 1)
    assert sum(isinstance(op, TpuMatMul) for op in graph.ops) == 1 + turned
    x = np.random.default_rng(4).normal(0, 1, model.inputs[0].shape).astype(np.float32)
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    computed = simulate(to_program(graph, {}, Precision(chip, "F32")), {"x": x[0]})[model.outputs[0].name]
    np.testing.assert_allclose(computed, expected[0], atol=1e-5)


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688", "cv181x"])
def test_the_chip_model_agrees(chip: str, tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """Of windows as far apart the compiler takes one scale, and of groups the first channels alone."""
    for group in (1, 8):
        (tmp_path / str(group)).mkdir()
        report = built(_patches(group, 32), f"chip: {chip}", tmp_path / str(group))
        assert refuted(report) == []
        assert report["status"] == "ok"


@pytest.mark.parametrize(
    ("chip", "channels", "product"), [("bm1684x", 3, True), ("bm1684x", 4, False), ("cv181x", 3, False)]
)
def test_images_in_patches_of_14(
    tpu_toolchain: Toolchain, tmp_path: Path, chip: str, channels: int, product: bool
) -> None:
    """As DINOv2 has them: the BM chips' compiler makes products of them where the image has three channels."""
    net = Net()
    image = net("Slice", net("Pad", "x", net.ints(0, 0, 0, 0, 0, 0, 16, 18)), *map(net.ints, (0, channels, 1)))
    weights = (net.normal(20, channels, 14, 14, spread=0.05), net.normal(20))
    model = net.model([net("Conv", image, *weights, strides=[14, 14], to="embedded")])
    report = built(model, f"chip: {chip}", tmp_path)
    assert refuted(report) == []
    assert any(layer["op"] == "matmul" for layer in report["layers"]) == product
