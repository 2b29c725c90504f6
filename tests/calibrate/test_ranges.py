"""Percentiles against sorted data; least squared error against quantising the data itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.calibrate import Extremes, Histogram, max_range, mean_squared_error, mse_fraction_bits, mse_range
from nnkit.calibrate.ranges import FormatKind, percentile_range
from nnkit.calibrate.stats import ValueRange
from nnkit.program.formats import Fixed

Draw = Callable[[np.random.Generator, int], np.ndarray]


def _with_outliers(generator: np.random.Generator, count: int) -> np.ndarray:
    values = generator.standard_normal(count)
    values[: count // 2000] *= 40.0
    return values


SHAPES: dict[str, Draw] = {
    "normal": lambda g, n: g.standard_normal(n),
    "laplace": lambda g, n: g.laplace(0.0, 3.0, n),
    "rectified": lambda g, n: np.maximum(g.standard_normal(n) - 0.5, 0.0),
    "uniform": lambda g, n: g.uniform(-7.0, 2.0, n),
    "outliers": _with_outliers,
    "shifted": lambda g, n: g.standard_normal(n) * 0.1 + 5.0,
}


def _data(shape: str, count: int = 40_000) -> np.ndarray:
    return SHAPES[shape](np.random.default_rng(3), count).astype(np.float32)


def _histogram(values: np.ndarray) -> Histogram:
    histogram = Histogram()
    for part in np.array_split(values, 7):
        histogram = histogram.observed(part, "v")
    return histogram


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("percentile", [51.0, 90.0, 99.0, 99.9, 99.99, 100.0])
def test_percentile_within_one_bin_of_the_sorted_data(shape: str, percentile: float) -> None:
    values = _data(shape)
    histogram = _histogram(values)
    found = percentile_range(histogram, percentile)
    ordered = np.sort(values.astype(np.float64))
    beyond = math.floor(round(values.size * (100.0 - percentile) / 200.0, 6))  # so many may lie beyond either end
    assert ordered[values.size - 1 - beyond] <= found.high <= ordered[values.size - 1 - beyond] + histogram.width
    assert ordered[beyond] - histogram.width <= found.low <= ordered[beyond]
    assert np.mean((values >= found.low) & (values <= found.high)) >= percentile / 100.0
    assert (found.observed_low, found.observed_high) == (ordered[0], ordered[-1])
    assert found.observed_low <= found.low <= found.high <= found.observed_high


@settings(max_examples=60)
@given(
    st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=40),
    st.sampled_from([50.5, 60.0, 75.0, 90.0, 99.0, 100.0]),
)
def test_percentile_of_few_numbers(numbers: list[float], percentile: float) -> None:
    values = np.array(numbers, np.float32)
    found = percentile_range(Histogram().observed(values, "v"), percentile)
    inside = np.mean((values >= found.low) & (values <= found.high))
    assert inside >= percentile / 100.0 - 1e-12
    if percentile == 100.0:
        assert (found.low, found.high) == (values.min(), values.max())


def test_nothing_seen_and_only_zeros() -> None:
    zero = ValueRange(0.0, 0.0, 0.0, 0.0)
    assert max_range(Extremes()) == percentile_range(Histogram(), 99.0) == mse_range(Histogram(), 8, True) == zero
    zeros = Histogram().observed(np.zeros(9, np.float32), "v")
    assert max_range(zeros.extremes) == percentile_range(zeros, 99.0) == mse_range(zeros, 8, False) == zero
    assert mse_fraction_bits(zeros, 8, True) is None
    assert mean_squared_error(zeros, 0.1, -128, 127) == 0.0


def test_zeros_count_for_the_percentile() -> None:
    values = np.concatenate([np.zeros(95), np.full(4, 1.0), [100.0]]).astype(np.float32)
    histogram = Histogram().observed(values, "v")
    assert percentile_range(histogram, 90.0).high == 0.0
    assert percentile_range(histogram, 97.0).high == pytest.approx(1.0, abs=histogram.width)
    assert percentile_range(histogram, 99.5).high == 100.0
    assert percentile_range(histogram, 90.0).low == 0.0


def _true_error(values: np.ndarray, fixed: Fixed) -> float:
    real = values.astype(np.float64)
    return float(np.mean((real - fixed.dequantize(fixed.quantize(real))) ** 2))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("bits", "signed"), [(8, True), (8, False), (16, True), (4, True)])
def test_fraction_bits_are_the_best_by_quantising_the_data(shape: str, bits: int, signed: bool) -> None:
    values = _data(shape)
    found = mse_fraction_bits(_histogram(values), bits, signed)
    assert found is not None
    errors = {frac: _true_error(values, Fixed(bits, frac, signed)) for frac in range(-8, 24)}
    assert errors[found] <= min(errors.values()) * 1.01


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("frac", [0, 3, 5, 7])
@pytest.mark.parametrize("signed", [True, False])
def test_the_error_is_that_of_the_data(shape: str, frac: int, signed: bool) -> None:
    values = _data(shape, 200_000)
    fixed = Fixed(8, frac, signed)
    estimate = mean_squared_error(_histogram(values), 2.0**-frac, fixed.qmin, fixed.qmax)
    assert estimate == pytest.approx(_true_error(values, fixed), rel=0.02)


def test_the_error_by_hand() -> None:
    ones = Histogram().observed(np.full(10, 1.0, np.float32), "v")
    assert mean_squared_error(ones, 0.5, -128, 127) == 0.0  # 1 is on the grid, and all there is
    assert mean_squared_error(ones, 0.75, -128, 127) == pytest.approx(0.25**2, rel=1e-3)  # rounds to 0.75
    assert mean_squared_error(ones, 0.25, -2, 1) == pytest.approx(0.75**2, rel=1e-3)  # saturates at 0.25
    assert mean_squared_error(ones, 0.25, -128, 0) == pytest.approx(1.0, rel=1e-3)
    half = Histogram().observed(np.array([1.0, 0.0], np.float32), "v")
    assert mean_squared_error(half, 0.75, -128, 127) == pytest.approx(0.25**2 / 2, rel=1e-3)


def test_range_of_a_power_of_two_format_by_hand() -> None:
    values = np.concatenate([np.linspace(-1.0, 1.0, 100_001)[:-1], [1.5]]).astype(np.float32)
    # One number in 100,000 at 1.5. Clipping it costs 0.5^2 / 100,000 = 2.5e-6 on average. With 8 bits the finer
    # step saves (2^-12 - 2^-14) / 12 = 1.5e-5: so [-1, 1) is better. With 16 bits it saves next to nothing.
    found = mse_range(_histogram(values), 8, signed=True)
    assert (found.low, found.high) == (-1.0, 1.0 - 2.0**-7)
    assert (found.observed_low, found.observed_high) == (-1.0, 1.5)
    assert mse_range(_histogram(values), 16, signed=True).high == 1.5
    assert mse_fraction_bits(_histogram(values), 8, signed=True) == 7
    assert mse_fraction_bits(_histogram(values), 16, signed=True) == 14


@pytest.mark.parametrize("kind", ["symmetric", "affine"])
@pytest.mark.parametrize("shape", ["normal", "laplace", "outliers", "rectified", "uniform"])
def test_formats_of_any_step_beat_the_extremes(shape: str, kind: FormatKind) -> None:
    values = _data(shape).astype(np.float64)
    bits, signed = 8, kind == "symmetric"
    found = mse_range(_histogram(values), bits, signed, kind)

    def error(low: float, high: float) -> float:
        if kind == "symmetric":
            step, bottom, top = max(-low, high) / 127, -127, 127
        else:
            low, high = min(low, 0.0), max(high, 0.0)
            step = (high - low) / 255
            bottom = -round(-low / step)
            top = bottom + 255
        return float(np.mean((values - step * np.clip(np.round(values / step), bottom, top)) ** 2))

    low, high = float(values.min()), float(values.max())
    shrunk = [error(low * factor, high * factor) for factor in np.linspace(0.02, 1.0, 99)]
    assert error(found.low, found.high) <= min(shrunk) * 1.03
    assert error(found.low, found.high) <= error(low, high) * 1.001


def test_unsigned_format_for_negative_numbers_only() -> None:
    values = np.array([-1.0, -2.0], np.float32)
    found = mse_range(Histogram().observed(values, "v"), 8, signed=False)
    assert found.low <= found.high
    assert mse_fraction_bits(Histogram().observed(values, "v"), 8, signed=False) is not None
