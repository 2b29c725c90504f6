"""How far values may move: the plain bound, the amplified one, and what is never forgiven."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.rewrite import equivalence, resolve_rules, restructure
from nnkit.rewrite.equivalence import (
    FLOAT_ROUNDING,
    compare,
    evaluate,
    largest_error,
    rounding_noise,
    sample_inputs,
)


def test_samples_are_deterministic_and_cover_pixels(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    model = net.model(net.op("Relu", "x"))
    one, two = sample_inputs(model), sample_inputs(model)
    assert all(np.array_equal(a["x"], b["x"]) for a, b in zip(one, two, strict=True))
    assert one[0]["x"].min() < 0
    assert one[1]["x"].max() > 200


def test_all_values_are_seen(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    model = net.model(net.op("Relu", net.conv("x", (4, 3, 3, 3), name="c"), name="r"))
    values = evaluate(model, sample_inputs(model))
    assert list(values) == ["c_v", "r_v"]
    assert values["r_v"][0].min() == 0


def _compare(before, values, moved):
    return compare(before, values, moved, sample_inputs(before), FLOAT_ROUNDING)


def test_plain_bound(graphs):
    net = graphs.Net(x=(1, 3, 8, 8))
    model = net.model(net.op("Relu", net.conv("x", (4, 3, 3, 3), name="c"), name="r"))
    values = evaluate(model, sample_inputs(model))
    peak = max(np.abs(v).max() for v in values["r_v"])
    for factor, caught in ((0.5e-5, False), (1e-3, True)):
        moved = values | {"r_v": [v + np.float32(factor * peak) for v in values["r_v"]]}
        difference = _compare(model, values, moved)
        assert (difference.offending_value == "r_v") == caught
        assert difference.max_error == pytest.approx(factor * peak, rel=0.2)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_no_longer_finite_is_caught(graphs, bad):
    net = graphs.Net(x=(1, 3))
    model = net.model(net.op("Relu", "x", name="r"))
    values = evaluate(model, sample_inputs(model))
    moved = {"r_v": [np.full_like(v, bad) for v in values["r_v"]]}
    assert _compare(model, values, moved).offending_value == "r_v"
    assert _compare(model, moved, moved).offending_value == ""


def _cancelling(graphs, mean):
    """A batch norm that subtracts a mean far above its spread: rounding is amplified by mean / spread."""
    net = graphs.Net(x=(1, 8, 6, 6))
    conv = net.op("Conv", "x", net.normal(4, 8, 3, 3), net.const(np.full(4, mean)), name="c")
    ones = net.const(np.ones(4))
    return net.model(net.op("BatchNormalization", conv, ones, ones, net.const(np.full(4, mean)), ones, name="bn"))


def test_an_ill_conditioned_network_is_not_blamed_on_the_rule(graphs):
    """Each float32 near 1e6 is known to 0.03; the folded graph does not lose that, the original does."""
    model = _cancelling(graphs, 1e6)
    samples = [{"x": np.random.default_rng(0).standard_normal((1, 8, 6, 6)).astype(np.float32)}]
    _, log = restructure(model, resolve_rules(["fold_batch_norm"]), check_inputs=samples)
    assert log.of("fold_batch_norm").relative_error > FLOAT_ROUNDING.relative


def test_noise_follows_the_conditioning(graphs):
    samples = [{"x": np.random.default_rng(0).standard_normal((1, 8, 6, 6)).astype(np.float32)}]
    noises = []
    for mean in (1.0, 1e6):
        model = _cancelling(graphs, mean)
        noises.append(rounding_noise(model, evaluate(model, samples), samples)["bn_v"])
    assert noises[0] < 1e-4
    assert noises[1] > 100 * noises[0]


def test_conditioning_is_no_excuse_for_a_real_error(graphs):
    model = _cancelling(graphs, 1e4)
    samples = sample_inputs(model)
    values = evaluate(model, samples)
    moved = values | {"bn_v": [v * np.float32(1.5) for v in values["bn_v"]]}
    assert compare(model, values, moved, samples, FLOAT_ROUNDING).offending_value == "bn_v"


def test_noise_leaves_the_sizes_of_a_resize(graphs):
    """A scale of 2, less one unit in the last place, would make 15 rows of 8."""
    net = graphs.Net(x=(1, 3, 8, 8))
    scales = net.const([1, 1, 2, 2])
    model = net.model(net.op("Resize", net.conv("x", (4, 3, 1, 1)), "", scales, name="up"))
    samples = sample_inputs(model)
    values = evaluate(model, samples)
    noise = rounding_noise(model, values, samples)["up_v"]
    assert 0 < noise < 1e-5 * max(np.abs(each).max() for each in values["up_v"])


def test_noise_leaves_exponents(graphs):
    """A negative number to the power of 2.0000002 is none, and what moves infinitely would excuse every error."""
    net = graphs.Net(x=(1, 3, 8, 8))
    model = net.model(net.op("Pow", "x", net.const(2.0), name="square"))
    samples = sample_inputs(model)
    values = evaluate(model, samples)
    noise = rounding_noise(model, values, samples)["square_v"]
    assert 0 < noise < 1e-5 * max(np.abs(each).max() for each in values["square_v"])


def test_noise_covers_the_weights_of_interpolation_and_no_other_kernel(graphs):
    """Coordinates are rounded to float32: behind a Clip the sum's rounding alone would not explain what that does."""
    net = graphs.Net(x=(1, 1, 256, 256))
    grown = net.op("Resize", "x", "", net.const([1, 1, 3, 3]), name="up", mode="cubic", cubic_coeff_a=-0.75)
    model = net.model(net.op("Clip", grown, net.const(0.0), net.const(1.0), name="clip"))
    samples = sample_inputs(model)
    values = evaluate(model, samples)
    exact = [_cubic(sample["x"][0, 0], -0.75) for sample in samples]
    ours = values | {"up_v": exact, "clip_v": [np.clip(each, 0, 1) for each in exact]}
    assert not compare(model, values, ours, samples, FLOAT_ROUNDING).offending_value
    sharper = [_cubic(sample["x"][0, 0], -0.7) for sample in samples]
    assert compare(model, values, values | {"up_v": sharper}, samples, FLOAT_ROUNDING).offending_value == "up_v"


def _cubic(pixels: np.ndarray, a: float) -> np.ndarray:
    """Three times as large by Keys' kernel in float64, pixels' centres kept, borders repeated."""
    side = len(pixels)
    weights = np.zeros((3 * side, side))
    for row in range(3 * side):
        centre = (row + 0.5) / 3 - 0.5
        for tap in range(int(np.floor(centre)) - 1, int(np.floor(centre)) + 3):
            d = abs(centre - tap)
            near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * (d**3 - 5 * d**2 + 8 * d - 4)
            weights[row, min(max(tap, 0), side - 1)] += near if d <= 1 else far
    return (weights @ pixels.astype(np.float64) @ weights.T)[None, None].astype(np.float32)


def test_large_values_are_compared_block_by_block(monkeypatch):
    monkeypatch.setattr(equivalence, "_BLOCK", 7)
    before = np.random.default_rng(1).normal(0, 1, (3, 4, 5)).astype(np.float32)
    after = before.copy()
    assert largest_error(before, after) == 0.0
    after[2, 3, 4] += 0.5  # in the last block, which is not full
    assert largest_error(before, after) == abs(np.float64(after[2, 3, 4]) - np.float64(before[2, 3, 4]))
    after[1, 1, 1] = np.nan
    assert largest_error(before, after) == np.inf
    assert largest_error(before[:0], after[:0]) == 0.0


def test_a_mean_over_a_million_numbers_errs_by_more_than_the_plain_bound(graphs):
    """Two ways of ONNX Runtime to sum up pixels are 1.3e-5 apart. An error of a thousandth is told all the same, and
    for means of few numbers one of a ten-thousandth."""
    net = graphs.Net(x=(1, 1, 10, 131072))
    model = net.model(net.op("GlobalAveragePool", "x", name="mean"))
    samples = sample_inputs(model)
    values = evaluate(model, samples)
    name = next(iter(values))
    exact = [sample["x"].astype(np.float64).mean(axis=(2, 3), keepdims=True) for sample in samples]

    def moved(relative):
        return {name: [(mean * (1 + relative)).astype(np.float32) for mean in exact]}

    assert not compare(model, values, moved(1e-4), samples, FLOAT_ROUNDING).offending_value
    assert compare(model, values, moved(1e-3), samples, FLOAT_ROUNDING).offending_value == name
    net = graphs.Net(x=(1, 1, 4, 4))
    small = net.model(net.op("GlobalAveragePool", "x", name="mean"))
    values = evaluate(small, sample_inputs(small))
    off = {name: [array * np.float32(1 + 1e-4) for array in arrays] for name, arrays in values.items()}
    assert compare(small, values, off, sample_inputs(small), FLOAT_ROUNDING).offending_value
