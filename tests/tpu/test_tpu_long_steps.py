"""Strides and dilations above 15: the forms of the BM chips against ONNX Runtime, and on the vendor's chip model."""

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
from nnkit_tpu.long_steps import LONGEST_STEP
from nnkit_tpu.lowering import lower
from nnkit_tpu.program import Mode, TpuConv, TpuDeconv, TpuGraph, TpuPool
from nnkit_tpu.quantize import Precision, to_program
from nnkit_tpu.toolchain import Toolchain


def _model() -> Model:
    """Pools and convolutions of 8 channels of 52 x 50, strides and dilations on both sides of the limit."""
    net = Net()
    image = net("Relu", net("Pad", "x", net.ints(0, 0, 20, 20, 0, 0, 20, 20)), to="image")
    outputs = []
    for kernel, strides, pads in (
        ((16, 16), (16, 16), (0, 0, 0, 0)),
        ((18, 20), (20, 3), (7, 0, 7, 0)),
        ((17, 3), (17, 17), (0, 0, 0, 0)),
        ((15, 15), (15, 15), (0, 0, 0, 0)),
    ):
        for kind in ("Average", "Max"):
            name = f"{kind}_{kernel[0]}"
            outputs.append(net(f"{kind}Pool", image, kernel_shape=kernel, strides=strides, pads=pads, to=name))
    for name, dilations, strides, group in (
        ("apart", (16, 17), (1, 2), 1),
        ("one_axis", (1, 20), (1, 1), 1),
        ("depthwise", (18, 16), (1, 1), 8),
        ("near", (15, 15), (1, 1), 1),
    ):
        how = {"dilations": dilations, "pads": (dilations[0], 5) * 2, "strides": strides, "group": group}
        outputs.append(net("Conv", image, net.normal(8, 8 // group, 3, 3), net.normal(8), to=name, **how))
    small = net("MaxPool", image, kernel_shape=[13, 13], strides=[13, 13], to="small")
    for name, kernel, strides, pads, group in (
        ("spread", (16, 20), (16, 18), (0, 3, 2, 1), 1),
        ("spread_groups", (33, 3), (16, 2), (5, 0, 5, 0), 2),
        ("spread_channels", (9, 18), (9, 9), (0, 4, 0, 5), 8),
    ):
        weights = net.normal(8, 8 // group, *kernel), net.normal(8)
        outputs.append(net("ConvTranspose", small, *weights, strides=strides, pads=pads, group=group, to=name))
    return net.model(outputs)


def _pools() -> Model:
    """Pools of 82 x 80 with strides above 15, above 31, and of one window; the last leaves padding out."""
    net = Net()
    image = net("Relu", net("Pad", "x", net.ints(0, 0, 35, 35, 0, 0, 35, 35)), to="image")
    outputs = []
    for kind, kernel, strides, pads in (
        ("Max", (33, 33), (33, 33), (0, 0, 0, 0)),
        ("Max", (2, 3), (37, 20), (0, 0, 0, 0)),
        ("Max", (60, 17), (40, 16), (0, 0, 0, 0)),
        ("Average", (17, 5), (34, 17), (0, 0, 0, 0)),
        ("Average", (20, 34), (20, 34), (9, 9, 9, 9)),
    ):
        name = f"{kind}_{kernel[0]}"
        outputs.append(net(f"{kind}Pool", image, kernel_shape=kernel, strides=strides, pads=pads, to=name))
    return net.model(outputs)


@pytest.mark.parametrize("mode", ["INT8", "F16"])
def test_the_forms_are_what_was_written(mode: str) -> None:
    model = _model()
    graph = for_chip(lower(model, "net", "bm1684x"), "bm1684x", "INT8" if mode == "INT8" else "F16")
    dilations = {max(op.window.dilation_h, op.window.dilation_w) for op in graph.ops if isinstance(op, TpuConv)}
    assert dilations == {1, 9, LONGEST_STEP}
    assert not any(isinstance(op, TpuDeconv) for op in graph.ops)
    pools = {op.name: op for op in graph.ops if isinstance(op, TpuPool)}
    if mode == "INT8":
        assert pools["Average_16_windows"].window.stride_h == 8
        assert "hp" in pools["Average_17"].tags
        assert not pools["Average_15"].tags
    _assert_same(model, graph, seed=4)


def _assert_same(model: Model, graph: TpuGraph, *, seed: int) -> None:
    """The graph gives what ONNX Runtime does for the network."""
    x = np.random.default_rng(seed).normal(0, 1, model.inputs[0].shape).astype(np.float32)
    session = onnxruntime.InferenceSession(model.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    computed = simulate(to_program(graph, {}, Precision("bm1684x", "F32")), {"x": x[0]})
    for output, expected in zip(model.outputs, session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(computed[output.name], expected[0], atol=2e-5, err_msg=output.name)


@pytest.mark.parametrize(("mode", "longest"), [("INT8", 31), ("BF16", LONGEST_STEP)])
def test_pools_of_the_cv18xx_are_what_was_written(mode: Mode, longest: int) -> None:
    model = _pools()
    graph = for_chip(lower(model, "net", "cv181x"), "cv181x", mode)
    assert max(max(op.window.stride_h, op.window.stride_w) for op in graph.ops if isinstance(op, TpuPool)) <= longest
    _assert_same(model, graph, seed=6)


@pytest.mark.parametrize("chip", ["bm1684x", "bm1688"])
def test_the_chip_model_agrees(chip: str, tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """As they are written, the compiler ends on most of these, and on the others the chip gives other values."""
    assert refuted(built(_model(), f"chip: {chip}", tmp_path)) == []


def test_means_of_many_values_are_right_in_bf16(tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """In BF16 the BM chips round the sum behind every addend: it grows no more at 256 times what is added."""
    net = Net()
    image = net("Pad", "x", net.ints(0, 0, 35, 35, 0, 0, 35, 35), net.constant(1.0), to="image")
    for side in (17, 40):
        net("AveragePool", image, kernel_shape=(side, side), strides=(side, side), to=f"side_{side}")
    rows = net("Reshape", image, net.ints(1, 8, 82 * 80), to="values")
    net("ReduceMean", rows, net.ints(2), to="mean")
    report = built(net.model(["side_17", "side_40", "mean"]), "chip: bm1684x, precision: bf16", tmp_path)
    assert report["status"] == "ok"
    assert refuted(report) == []


@pytest.mark.parametrize(
    ("precision", "hp"), [("int8", ()), ("bf16", ()), ("int8", ("Max_33", "Max_60", "Average_17", "Average_20"))]
)
def test_the_cv181x_agrees(precision: str, hp: tuple[str, ...], tpu_toolchain: Toolchain, tmp_path: Path) -> None:
    """As they are written, the compiler ends on those in BF16, and the chip gives other values for INT8."""
    report = built(_pools(), f"chip: cv181x, precision: {precision}", tmp_path, hp=hp)
    assert report["status"] == "ok"
    assert refuted(report) == []
