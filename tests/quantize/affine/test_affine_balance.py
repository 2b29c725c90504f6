"""Balanced channels: the float network stays, predicted noise is real noise, and 8 bits lose less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from exact_session import exact_session
from numpy.typing import NDArray
from onnx import helper

from nnkit.calibrate import calibrate
from nnkit.graph import Model
from nnkit.quantize.affine import (
    HEADROOM,
    AffineScheme,
    balance,
    equalize,
    float_outputs,
    outputs_of,
    qdq_model,
    quantize_affine,
)
from nnkit.quantize.affine.balance import ChannelWidths, channel_widths, predicted_noise
from nnkit.quantize.affine.build import split_pools
from nnkit.quantize.affine.channel_classes import channel_classes
from nnkit.quantize.affine.quantize import Corrections
from nnkit.quantize.affine.ranges import activation_format
from nnkit.quantize.judge import outputs_sqnr_db
from nnkit.quantize.lowered import LoweredLayers
from nnkit.quantize.lowering import lower
from tests.quantize.affine.test_affine_equalize import two_convolutions
from tests.quantize.conftest import make_model, mark

WIDTHS = np.array([1.0, 0.03, 0.3, 0.1])


def conv(name: str, source: str, out: str, *, groups: int = 1) -> onnx.NodeProto:
    return helper.make_node(
        "Conv", [source, f"{name}.w", f"{name}.b"], [out], name=name, pads=[1, 1, 1, 1], group=groups
    )


def residual() -> Model:
    """conv, Relu, depthwise; a residual addition with Relu; a max pool; a concatenation; a last convolution."""
    rng = np.random.default_rng(5)
    nodes = [
        conv("stem", "x", "s"),
        mark(helper.make_node("Relu", ["s"], ["sr"], name="stem_relu"), "s"),
        conv("depthwise", "sr", "d", groups=4),
        mark(helper.make_node("LeakyRelu", ["d"], ["dr"], name="leaky", alpha=0.2), "d"),
        conv("branch", "dr", "b"),
        helper.make_node("Add", ["b", "sr"], ["sum"], name="add"),
        mark(helper.make_node("Relu", ["sum"], ["r"], name="add_relu"), "sum"),
        helper.make_node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        conv("other", "dr", "o"),
        helper.make_node("MaxPool", ["o"], ["op"], name="pool2", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Concat", ["p", "op"], ["cat"], name="cat", axis=1),
        conv("last", "cat", "y"),
    ]
    shapes = {"stem": (4, 3), "depthwise": (4, 1), "branch": (4, 4), "other": (4, 4), "last": (5, 8)}
    constants: dict[str, NDArray[Any]] = {}
    for name, (out, read) in shapes.items():
        wide = rng.permutation(WIDTHS)[:, None, None, None] if out == 4 else np.ones((out, 1, 1, 1))
        constants[f"{name}.w"] = (rng.normal(0, 0.4, (out, read, 3, 3)) * wide).astype(np.float32)
        constants[f"{name}.b"] = (rng.normal(0, 0.2, out) * wide.ravel()).astype(np.float32)
    return make_model(nodes, constants, {"x": (1, 3, 8, 8)}, ["y"])


def inputs(count: int, seed: int = 1) -> dict[str, NDArray[np.float32]]:
    return {"x": np.random.default_rng(seed).normal(0, 1, (count, 3, 8, 8)).astype(np.float32)}


def test_channels_that_are_tied_together_share_a_class() -> None:
    classes = channel_classes(split_pools(lower(residual())))
    labels = classes.labels
    for one, other in (("sr", "r"), ("b", "r"), ("r", "p"), ("o", "op")):  # the addition; pools
        assert labels[one].tolist() == labels[other].tolist()
    assert labels["cat"].tolist() == [*labels["p"].tolist(), *labels["op"].tolist()]
    assert not set(labels["dr"].tolist()) & set(labels["sr"].tolist())  # a depthwise layer may change the scale
    assert not classes.free[labels["x"]].any()
    assert not classes.free[labels["y"]].any()
    assert classes.free[labels["cat"]].all()
    assert {frozenset(group) for group in classes.groups()} == {
        frozenset({"sr", "b", "r", "p", "o", "op", "cat"}),  # the concatenation is read by one layer
        frozenset({"dr"}),
    }


def test_outputs_stay_and_8_bits_lose_less() -> None:
    model, seen, unseen = residual(), inputs(32), inputs(32, seed=2)
    balanced = balance(LoweredLayers.of(model), seen)
    expected = float_outputs(model, unseen)
    np.testing.assert_allclose(
        float_outputs(balanced.network.model, unseen)["y"], expected["y"], rtol=1e-4, atol=1e-4
    )
    assert "sr" in balanced.values
    assert "y" not in balanced.values
    assert all(group.gain_db > 0.0 for group in balanced.groups)
    losses = []
    for network, headroom in ((model, 1.0), (balanced.network.model, HEADROOM)):
        stats = calibrate(network, {"x": list(seen["x"][:, None])}, {}, method="mse")
        scheme = replace(AffineScheme(), eight_bit_headroom=headroom)
        program = quantize_affine(LoweredLayers.of(network), stats, scheme, Corrections(samples=seen))
        losses.append(outputs_sqnr_db(outputs_of(program, unseen), expected))
        session = exact_session(qdq_model(program).SerializeToString())
        (run,) = session.run(None, unseen)
        assert outputs_sqnr_db({"y": run}, expected) == pytest.approx(losses[-1], abs=0.5)
    assert losses[1] > losses[0] + 2.0  # channels of a thirtieth of the width had a thirtieth of the levels


def test_a_depthwise_reader_leaves_the_scale_to_the_widths() -> None:
    model = two_convolutions("Relu", 4)
    samples = {"x": np.random.default_rng(1).normal(0, 1, (12, 3, 6, 6)).astype(np.float32)}
    balanced = balance(LoweredLayers.of(model), samples)
    (group,) = balanced.groups
    assert group.values == ("a",)
    assert group.exponent == 0.75  # a share of 1
    before, after = (
        channel_widths(split_pools(lower(each)), samples)["a"].width for each in (model, balanced.network.model)
    )
    # s = (w / max w)^0.75 for channels wider than a hundredth of the widest.
    np.testing.assert_allclose(after, before / np.maximum(before / before.max(), 0.01) ** 0.75, rtol=1e-4)


def test_channels_that_are_silent_on_all_samples_are_scaled_as_the_median() -> None:
    model = two_convolutions("Relu", 4)
    samples = {"x": np.random.default_rng(1).normal(0, 0.02, (12, 3, 6, 6)).astype(np.float32)}
    layers = [split_pools(lower(each)) for each in (model, balance(LoweredLayers.of(model), samples).network.model)]
    width = channel_widths(layers[0], samples)["a"].width
    silent = width == 0.0
    assert 0 < silent.sum() < 4  # their biases are below zero, and these inputs are small
    relative = np.where(silent, np.median(width[~silent] / width.max()), width / width.max())
    rows = [np.abs(each.ops[0].weight).reshape(4, -1).max(axis=1) for each in layers]  # type: ignore[arg-type]
    np.testing.assert_allclose(rows[0] / rows[1], np.maximum(relative, 0.01) ** 0.75, rtol=1e-4)


@pytest.mark.parametrize(("weight_bits", "activation_bits"), [(8, 8), (8, 16), (16, 8)])
@pytest.mark.parametrize("exponent", [0.0, 0.6])
def test_predicted_noise_is_the_noise_of_a_convolution_that_is_rounded(
    exponent: float, weight_bits: Any, activation_bits: Any
) -> None:
    rng = np.random.default_rng(0)
    wide = np.tile(WIDTHS, 16)
    weight = rng.normal(0, 1, (256, 64)).astype(np.float32)
    values = rng.uniform(-1, 1, (64, 2_000)) * wide[:, None]
    node = helper.make_node("Conv", ["x", "l.w"], ["y"], name="l")
    model = make_model([node], {"l.w": weight[:, :, None, None]}, {"x": (1, 64, 5, 5)}, ["y"])
    widths = ChannelWidths(wide, wide, np.square(values).mean(axis=1))
    scales = wide**exponent
    scheme = AffineScheme(weight_bits=weight_bits, activation_bits=activation_bits)
    labels = {"x": np.arange(64)}
    predicted = predicted_noise(split_pools(lower(model)), ("x",), labels, scales, {"x": widths}, scheme)
    # The same by rounding: values on one grid for all channels, weights on one for each output.
    step = 2.0 * float((wide / scales).max()) / ((1 << activation_bits) - 1)
    rounded = np.rint(values / scales[:, None] / step) * step
    read = weight * scales
    steps = np.abs(read).max(axis=1, keepdims=True) / ((1 << (weight_bits - 1)) - 1)
    exact = weight @ values
    error = np.rint(read / steps) * steps @ rounded - exact
    measured = np.square(error).sum() / np.square(exact).sum()
    assert 10 * np.log10(predicted / measured) == pytest.approx(0.0, abs=0.3)


def test_a_reader_without_a_signal_has_no_noise() -> None:
    """One convolution of ones, and one of zeros beside it: by hand, the noise is that of the first."""
    nodes = [helper.make_node("Conv", ["x", f"{name}.w"], [name], name=name) for name in ("y", "zero")]
    constants = {"y.w": np.ones((1, 2, 1, 1), np.float32), "zero.w": np.zeros((1, 2, 1, 1), np.float32)}
    layers = split_pools(lower(make_model(nodes, constants, {"x": (1, 2, 5, 5)}, ["y", "zero"])))
    widths = ChannelWidths(np.zeros(2), np.full(2, 255.0), np.full(2, 100.0))
    labels = {"x": np.arange(2)}
    predicted = predicted_noise(layers, ("x",), labels, np.ones(2), {"x": widths}, AffineScheme())
    # Two values with a step of 1; two weights with a step of 1/127, times the power; a signal of both powers.
    assert predicted == pytest.approx((2 / 12 + 200 / 127**2 / 12) / 200)
    silent = ChannelWidths(np.zeros(2), np.zeros(2), np.zeros(2))
    assert predicted_noise(layers, ("x",), labels, np.ones(2), {"x": silent}, AffineScheme()) == 0.0


def test_widths_are_extremes_or_four_deviations_of_what_images_reach() -> None:
    model = two_convolutions("Relu", 1)
    rng = np.random.default_rng(2)
    x = rng.normal(0, 1, (9, 3, 6, 6)).astype(np.float32)
    x[8] *= 20.0  # one image far beyond the others
    found = channel_widths(split_pools(lower(model)), {"x": x})["x"]
    peaks = x.max(axis=(2, 3)).astype(np.float64)
    np.testing.assert_allclose(found.above, np.maximum(peaks.max(axis=0), peaks.mean(axis=0) + 4 * peaks.std(axis=0)))
    troughs = -x.min(axis=(2, 3)).astype(np.float64)
    np.testing.assert_allclose(
        found.below, np.maximum(troughs.max(axis=0), troughs.mean(axis=0) + 4 * troughs.std(axis=0))
    )
    np.testing.assert_allclose(found.power, np.square(x, dtype=np.float64).mean(axis=(0, 2, 3)))


def test_what_cannot_be_scaled_is_left_alone_with_the_reason() -> None:
    samples = {"x": np.random.default_rng(1).normal(0, 1, (8, 3, 6, 6)).astype(np.float32)}
    assert (
        balance(LoweredLayers.of(two_convolutions("Relu", 1, shared=True)), samples).values == ()
    )  # it is an output too
    model = two_convolutions("Relu", 1)
    per_tensor = balance(LoweredLayers.of(model), samples, AffineScheme(per_channel=False))
    assert per_tensor.network.model is model
    assert "one scale per tensor" in per_tensor.declined[0]


def test_channels_below_an_upper_bound_are_scaled_and_outputs_stay() -> None:
    model = two_convolutions("Clip", 1)  # channels of very different width: some reach 6, others stay far below
    seen = {"x": np.random.default_rng(1).normal(0, 0.2, (20, 3, 6, 6)).astype(np.float32)}
    louder = {"x": seen["x"] * np.float32(1.2)}  # below the headroom of 1.25, but for biases
    balanced = balance(LoweredLayers.of(model), seen)
    assert balanced.values == ("a",)
    for samples in (seen, louder):
        before, after = float_outputs(model, samples)["y"], float_outputs(balanced.network.model, samples)["y"]
        np.testing.assert_allclose(after, before, rtol=2e-4, atol=2e-4 * np.abs(before).max())
    before, after = (
        channel_widths(split_pools(lower(each)), seen)["a"].width for each in (model, balanced.network.model)
    )
    reaching = before > 6.0 / 1.25
    assert 0 < reaching.sum() < 4
    np.testing.assert_allclose(after[reaching], before[reaching], rtol=1e-5)
    assert (after[~reaching] > 1.05 * before[~reaching]).any()
    assert (after[~reaching] <= 6.0 / 1.25 * (1 + 1e-5)).all()


def test_equalised_networks_can_be_balanced() -> None:
    model, seen = residual(), inputs(16)
    both = balance(equalize(LoweredLayers.of(model), seen).network, seen)
    np.testing.assert_allclose(
        float_outputs(both.network.model, seen)["y"], float_outputs(model, seen)["y"], rtol=1e-4, atol=1e-4
    )


def test_headroom_of_8_bits_is_for_inner_values_alone() -> None:
    model, seen = two_convolutions("Relu", 1), {"x": np.float32(np.random.default_rng(1).normal(0, 1, (8, 3, 6, 6)))}
    stats = calibrate(model, {"x": list(seen["x"][:, None])}, {}, method="max")
    plain = AffineScheme(activation_method="max")
    roomy = replace(plain, eight_bit_headroom=1.05)
    before, after = (activation_format(stats, "a", scheme).scale[0] for scheme in (plain, roomy))
    assert after == pytest.approx(1.05 * before)
    assert activation_format(stats, "a", roomy, is_input=True) == activation_format(stats, "a", plain)
    fewer = replace(roomy, activation_method="percentile")  # clips on purpose
    assert activation_format(
        calibrate(model, {"x": list(seen["x"][:, None])}, {}, method="percentile"), "a", fewer
    ) == activation_format(
        calibrate(model, {"x": list(seen["x"][:, None])}, {}, method="percentile"),
        "a",
        replace(plain, activation_method="percentile"),
    )
