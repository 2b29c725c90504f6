"""What one pass observes, against numpy on the same numbers: sums in place, values that follow from others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.calibrate import Extremes, Histogram
from nnkit.calibrate.counting import numpy_count
from nnkit.calibrate.derived import Derived
from nnkit.calibrate.recorder import Recorder
from nnkit.errors import ModelError

NAMES = ("x", "moved", "relu", "moved_relu")
DERIVED = Derived({"moved": "x", "moved_relu": "relu"}, {"relu": "x"})


def _recorder(*, histograms: bool = True) -> Recorder:
    network: Any = SimpleNamespace(names=NAMES, derived=DERIVED)
    return Recorder(network, numpy_count if histograms else None)


def _recorded(samples: list[np.ndarray], *, histograms: bool = True) -> Any:
    recorder = _recorder(histograms=histograms)
    for sample in samples:
        recorder.record({"x": sample})
    return recorder.observers()


def _check_histogram(found: Histogram, numbers: np.ndarray) -> None:
    """Each number searched among the edges; the range the smallest power of two that holds all."""
    numbers = numbers.astype(np.float64)
    assert found.extremes == Extremes(numbers.min(), numbers.max(), numbers.size)
    assert found.zeros == np.sum(numbers == 0.0)
    inside = numbers[numbers != 0.0]
    if inside.size:
        assert inside.min() < -(2.0 ** (found.exponent - 1)) or inside.max() >= 2.0 ** (found.exponent - 1)
    expected, _ = np.histogram(inside, found.edges)
    assert np.array_equal(found.counts, expected)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 60),
            st.floats(-3.0, 3.0),  # where they lie: to one side, the other, or around zero
            st.integers(-8, 8),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(0, 2**32 - 1),
)
def test_sums_are_the_histograms_of_all_numbers(kinds: list[tuple[int, float, int]], seed: int) -> None:
    generator = np.random.default_rng(seed)
    samples = [
        ((generator.standard_normal(size) + shift) * 2.0**exponent).astype(np.float32)
        for size, shift, exponent in kinds
    ]
    found = _recorded(samples)
    everything = np.concatenate(samples)
    assert list(found) == list(NAMES)
    _check_histogram(found["x"], everything)
    _check_histogram(found["relu"], np.maximum(everything, 0.0))
    assert found["moved"] is found["x"]
    assert found["moved_relu"] is found["relu"]
    once = Histogram().observed(everything, "x")
    assert np.array_equal(found["x"].counts, once.counts)
    assert (found["x"].exponent, found["x"].zeros, found["x"].extremes) == (once.exponent, once.zeros, once.extremes)


@pytest.mark.parametrize("large", [2.0, 4.0, 8.0, 40.0, 500.0, 1e30])
def test_behind_a_relu_the_bins_are_those_of_the_positive_numbers(large: float) -> None:
    """Negative numbers `large` times as large as the positive ones, whose bins must stay as fine as they can be."""
    generator = np.random.default_rng(4)
    numbers = generator.uniform(-large, 0.999, 50_000).astype(np.float32)
    numbers[:20_000] = generator.uniform(0.0, 0.999, 20_000)
    numbers[7] = 0.0
    found = _recorded([numbers[:1000], numbers[1000:].reshape(7, 10, 700)])
    assert found["relu"].exponent == 0
    _check_histogram(found["relu"], np.maximum(numbers, 0.0))
    _check_histogram(found["x"], numbers)


def test_extremes_alone() -> None:
    found = _recorded([np.float32([-3.0, -1.0]), np.float32([0.5]), np.zeros((0, 4), np.float32)], histograms=False)
    assert found["x"] == found["moved"] == Extremes(-3.0, 0.5, 3)
    assert found["relu"] == found["moved_relu"] == Extremes(0.0, 0.5, 3)


def test_doubles_and_halves() -> None:
    numbers = np.random.default_rng(2).standard_normal(3000) * 1e-3
    _check_histogram(_recorded([numbers])["relu"], np.maximum(numbers, 0.0))
    half = numbers.astype(np.float16)
    _check_histogram(_recorded([half])["x"], half)


@pytest.mark.parametrize("histograms", [True, False])
@pytest.mark.parametrize(("number", "reason"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_non_finite_values_are_named(histograms: bool, number: float, reason: str) -> None:
    recorder = _recorder(histograms=histograms)
    recorder.record({"x": np.float32([1.0])})
    with pytest.raises(ModelError, match=reason) as caught:
        recorder.record({"a": np.float32([2.0]), "x": np.float32([1.0, number])})
    assert caught.value.where == "x"


def test_threads_side_by_side_lose_nothing() -> None:
    """Ranges that grow while another thread counts, in narrower bins."""
    generator = np.random.default_rng(5)
    samples = [(generator.standard_normal(5000) * 2.0**index).astype(np.float32) for index in range(16)]
    recorder = _recorder()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda sample: recorder.record({"x": sample}), samples * 3))
    found, everything = recorder.observers(), np.concatenate(samples * 3)
    _check_histogram(found["x"], everything)
    _check_histogram(found["relu"], np.maximum(everything, 0.0))


def test_nothing_recorded_is_nothing_observed() -> None:
    assert _recorder().observers() == {}
