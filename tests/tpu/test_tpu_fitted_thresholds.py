"""Thresholds of `mse`: against a brute-force search over thresholds, on the numbers themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.calibrate.methods import range_of
from nnkit.calibrate.observers import Histogram
from nnkit.calibrate.stats import CalibrationStats, ValueRange
from nnkit_tpu.program import TpuActivation, TpuGraph
from nnkit_tpu.thresholds import fitted


def _swish(output: str) -> TpuActivation:
    return TpuActivation(name=output, inputs=("x",), output=output, function="silu")


_GRAPH = TpuGraph("one", {}, (_swish("swish"),), ("x",), ("swish",))


def squared_error(values: NDArray[Any], threshold: float, signed: bool) -> float:
    """Of int8 with the scale threshold / 127, or uint8 with threshold / 255."""
    scale, low, high = (threshold / 127, -128, 127) if signed else (threshold / 255, 0, 255)
    stored = np.clip(np.floor(values / scale + 0.5), low, high) * scale
    return float(np.mean((stored - values) ** 2))


@pytest.mark.parametrize(("always_signed", "low"), [(False, -np.inf), (False, 0.0), (True, 0.0)])
def test_no_other_threshold_stores_the_numbers_much_better(always_signed: bool, low: float) -> None:
    values = np.maximum(np.random.default_rng(3).laplace(size=40_000), low).astype(np.float32)
    histogram = Histogram().observed(values, "x")
    coarse = range_of(histogram, "mse")  # the power of two that calibration gives
    stats = CalibrationStats({"x": coarse}, "mse", 1, "", mse_bits=8, histograms={"x": histogram})
    found = fitted(_GRAPH, stats, always_signed=always_signed).ranges["x"].max_abs
    signed = always_signed or low < 0
    best = min(squared_error(values, t, signed) for t in np.linspace(0.05, 1.0, 400) * np.abs(values).max())
    assert squared_error(values, found, signed) <= 1.02 * best
    assert squared_error(values, found, signed) < squared_error(values, coarse.max_abs, signed)


def test_ranges_of_other_methods_stay_as_they_are() -> None:
    stats = CalibrationStats({"x": ValueRange(-1.0, 2.0, -1.0, 2.0)}, "max", 1, "")
    assert fitted(_GRAPH, stats, always_signed=True).ranges == stats.ranges


@pytest.mark.parametrize("always_signed", [False, True])
def test_with_kl_what_swish_gives_is_clipped_as_little_as_its_squared_error_bears(always_signed: bool) -> None:
    """Clipping what is large on one side alone adds up behind it; other values keep what the divergence chose."""
    before = np.random.default_rng(5).standard_normal(60_000)
    values = (before / (1.0 + np.exp(-before))).astype(np.float32)
    histogram = Histogram().observed(values, "swish")
    seen = ValueRange(float(values.min()), float(values.max()), float(values.min()), float(values.max()))
    stats = CalibrationStats(
        dict.fromkeys(("swish", "x"), seen), "kl", 1, "", mse_bits=8, histograms={"swish": histogram, "x": histogram}
    )
    ranges = fitted(_GRAPH, stats, always_signed=always_signed).ranges
    largest = float(values.max())
    shares = np.arange(0.05, 1.0, 1 / 161)
    errors = np.array([squared_error(values, share * largest, True) for share in shares])
    widest = float(shares[errors <= 1.02 * errors.min()].max()) * largest
    assert ranges["swish"].max_abs == pytest.approx(widest, rel=0.03)
    assert ranges["x"].max_abs == pytest.approx(range_of(histogram, "kl", kind="symmetric").max_abs)
    assert ranges["x"].max_abs < 0.97 * ranges["swish"].max_abs
