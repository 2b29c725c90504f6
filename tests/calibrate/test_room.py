"""Room for what was not seen: the factor by hand, its gain on numbers drawn anew, limits against ONNX Runtime."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from nnkit.calibrate.limits import limits_of
from nnkit.calibrate.methods import by_method, refit
from nnkit.calibrate.observers import Histogram
from nnkit.calibrate.room import given_room, room_factor, widened_values, with_room
from nnkit.calibrate.run import calibrate
from nnkit.calibrate.stats import CalibrationStats, Limits, ValueRange
from nnkit.graph import Model
from nnkit.importers import import_onnx
from nnkit.input_range import InputRange

_FREE = Limits(-math.inf, math.inf)


def _seen(values: NDArray[np.float32], room: Limits | None = _FREE) -> CalibrationStats:
    """Statistics of one value, by `max`."""
    stats = CalibrationStats({}, "max", 1, "graph", histograms={"v": Histogram().observed(values, "v")})
    return by_method(replace(stats, room={} if room is None else {"v": room}), "max")


@pytest.mark.parametrize(
    ("numbers", "factor"),
    # sqrt(ln(20000) / ln(2 n)), of which ln(20000) is 9.9035, ln(40) 3.6889, ln(2000) 7.6009 and ln(4) 1.3863
    [(20, 1.6385), (1_000, 1.1415), (10_000, 1.0), (10_000_000, 1.0), (2, 2.6728), (1, 2.6728)],
)
def test_the_factor_by_hand(numbers: int, factor: float) -> None:
    assert room_factor(numbers) == pytest.approx(factor, abs=1e-4)


def test_eight_bits_serve_a_normal_distribution_best_at_the_largest_of_ten_thousand() -> None:
    steps = np.linspace(-8, 8, 400_001)
    density = np.exp(-np.square(steps) / 2) / math.sqrt(2 * math.pi) * (steps[1] - steps[0])

    def error(end: float) -> float:
        kept = np.clip(np.rint(steps / end * 127), -128, 127) * end / 127
        return float((np.square(kept - steps) * density).sum())

    ends = np.linspace(3.0, 5.0, 81)
    best = float(ends[int(np.argmin([error(float(end)) for end in ends]))])
    beyond = 2 * 0.5 * math.erfc(best / math.sqrt(2))  # the share of numbers that lie further out
    assert 5_000 < 1 / beyond < 20_000


@pytest.mark.parametrize("numbers", [16, 64, 512])
def test_what_is_stored_of_numbers_that_nobody_saw_is_nearer(numbers: int) -> None:
    random = np.random.default_rng(numbers)
    unseen = random.normal(0, 3, 20_000)

    def mean_error(room: Limits | None) -> float:
        errors = []
        for _ in range(100):
            seen = _seen(random.normal(0, 3, numbers).astype(np.float32), room)
            step = seen.ranges["v"].max_abs / 127
            errors.append(np.square(np.clip(np.rint(unseen / step), -128, 127) * step - unseen).mean())
        return float(np.mean(errors))

    assert mean_error(_FREE) < 0.6 * mean_error(None)


def test_ten_thousand_numbers_are_enough() -> None:
    values = np.random.default_rng(0).normal(0, 1, 10_000).astype(np.float32)
    assert _seen(values).ranges == _seen(values, None).ranges
    assert widened_values(_seen(values)) == []


def test_ends_at_zero_and_signs_stay() -> None:
    positive = _seen(np.array([0.0, 1.0, 2.0, 5.0], np.float32)).ranges["v"]
    assert (positive.low, positive.high) == (0.0, pytest.approx(5.0 * room_factor(4)))
    negative = _seen(np.array([-4.0, -2.0], np.float32)).ranges["v"]
    assert (negative.low, negative.high) == (pytest.approx(-4.0 * room_factor(2)), -2.0)


def test_extremes_that_were_seen_stay_what_was_seen() -> None:
    made = _seen(np.array([-1.0, 2.0], np.float32)).ranges["v"]
    assert (made.observed_low, made.observed_high) == (-1.0, 2.0)


def test_no_range_goes_beyond_its_limits_nor_gets_narrower_by_them() -> None:
    values = np.array([-0.9, 0.95], np.float32)
    made = _seen(values, Limits(-1.0, 1.0)).ranges["v"]
    assert (made.low, made.high) == (-1.0, 1.0)
    beyond = _seen(np.array([-1.5, 1.5], np.float32), Limits(-1.0, 1.0)).ranges["v"]  # limits that do not hold
    assert (beyond.low, beyond.high) == (-1.5, 1.5)


def test_ranges_that_are_fitted_anew_get_the_room_once() -> None:
    values = np.random.default_rng(1).normal(0, 1, 200).astype(np.float32)
    plain = refit(by_method(_seen(values, None), "mse"), {"v": 8}, kind="symmetric").ranges["v"]
    roomy = refit(by_method(_seen(values), "mse"), {"v": 8}, kind="symmetric").ranges["v"]
    assert roomy.high == pytest.approx(plain.high * room_factor(200))
    again = refit(by_method(by_method(_seen(values), "kl"), "mse"), {"v": 8}, kind="symmetric").ranges["v"]
    assert again == roomy


def test_tuned_ranges_and_values_without_a_count_stay() -> None:
    seen = replace(_seen(np.array([-1.0, 1.0], np.float32), None), tuned=frozenset({"v"}))
    assert with_room(seen, {"v": _FREE}).ranges == seen.ranges
    bare = CalibrationStats({"v": ValueRange(-1.0, 1.0, -1.0, 1.0)}, "table", 0, "graph")
    assert with_room(bare, {"v": _FREE}).ranges == bare.ranges
    assert given_room(bare, "v", bare.ranges["v"]) == bare.ranges["v"]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Many bounded values, of an input of which the range is known, and of one of which it is not."""
    nodes = [
        helper.make_node("Tanh", ["x"], ["tanh"]),
        helper.make_node("Transpose", ["tanh"], ["turned"], perm=[0, 1, 3, 2]),
        helper.make_node("Sigmoid", ["x"], ["gate"]),
        helper.make_node("Clip", ["x", "least", "most"], ["clipped"]),
        helper.make_node("AveragePool", ["clipped"], ["mean"], kernel_shape=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["turned"], ["positive"]),
        helper.make_node("Softmax", ["x"], ["shares"], axis=1),
        helper.make_node("MaxPool", ["pixels"], ["brightest"], kernel_shape=[2, 2]),
        helper.make_node("Add", ["gate", "tanh"], ["sum"]),
        helper.make_node("Abs", ["x"], ["size"]),
    ]
    names = ("mean", "positive", "shares", "brightest", "sum", "size", "turned")
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 2, 4, 4)) for name in ("x", "pixels")],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
        [
            helper.make_tensor("least", TensorProto.FLOAT, [], [-0.5]),
            helper.make_tensor("most", TensorProto.FLOAT, [], [6]),
        ],
    )
    path = tmp_path_factory.mktemp("limits") / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return import_onnx(path).model


def test_limits_hold_and_are_those_of_the_layers(network: Model) -> None:
    limits = limits_of(network, {"pixels": InputRange(0.0, 255.0, integral=True)})
    assert limits["x"] == limits["sum"] == _FREE
    assert limits["tanh"] == limits["turned"] == Limits(-1.0, 1.0)
    assert limits["positive"] == limits["shares"] == limits["gate"] == Limits(0.0, 1.0)
    assert limits["clipped"] == limits["mean"] == Limits(-0.5, 6.0)
    assert limits["pixels"] == limits["brightest"] == Limits(0.0, 255.0)
    assert limits["size"] == Limits(0.0, math.inf)
    session = onnxruntime.InferenceSession(network.proto().SerializeToString(), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(2)
    feeds = {
        "x": random.normal(0, 30, (1, 2, 4, 4)).astype(np.float32),
        "pixels": random.integers(0, 256, (1, 2, 4, 4)).astype(np.float32),
    }
    for spec, values in zip(network.outputs, session.run(None, feeds), strict=True):
        assert limits[spec.name].low <= values.min()
        assert values.max() <= limits[spec.name].high


def test_statistics_with_room_are_others_than_without(network: Model) -> None:
    random = np.random.default_rng(3)
    inputs = {
        name: [random.normal(0, 1, (1, 2, 4, 4)).astype(np.float32) for _ in range(3)] for name in ("x", "pixels")
    }
    plain = calibrate(network, inputs, {}, method="kl")
    roomy = with_room(plain, limits_of(network, {}))
    assert roomy.digest != plain.digest
    assert replace(plain, room={}).digest == plain.digest
    assert {each.name for each in widened_values(roomy)} >= {"x", "sum"}
    assert roomy.ranges["tanh"].high <= 1.0
    assert roomy.ranges["x"].high == pytest.approx(plain.ranges["x"].high * room_factor(96))
