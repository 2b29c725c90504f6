"""Histograms and extremes against numpy on all data at once, and bit-identical merging in any split."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nnkit.calibrate import Extremes, Histogram
from nnkit.calibrate.observers import BINS, MIN_EXPONENT
from nnkit.errors import ExitCode, ModelError

FLOATS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 255.0, -256.0, 1e-45, -1e-45]),
    st.integers(-140, 127).map(lambda n: math.ldexp(1.0, n)),
    st.integers(-140, 127).map(lambda n: -math.ldexp(1.0, n)),
)
PARTS = st.lists(hnp.arrays(np.float32, st.integers(0, 20), elements=FLOATS), min_size=1, max_size=6)


def _same(one: Histogram, other: Histogram) -> bool:
    return (
        one.extremes == other.extremes
        and one.exponent == other.exponent
        and one.zeros == other.zeros
        and np.array_equal(one.counts, other.counts)
    )


def _observed(*parts: np.ndarray) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram = histogram.observed(part, "v")
    return histogram


def _check_against_numpy(histogram: Histogram, values: np.ndarray) -> None:
    """Counts by searching each number among the bins' edges; the range by its definition."""
    values = values.astype(np.float64)
    assert histogram.extremes == Extremes(values.min(), values.max(), values.size)
    assert histogram.zeros == np.sum(values == 0.0)
    radius = 2.0**histogram.exponent
    assert -radius <= values.min()
    assert values.max() < radius
    if histogram.exponent > MIN_EXPONENT:
        assert values.min() < -radius / 2 or values.max() >= radius / 2  # the next smaller range would not do
    bins = np.searchsorted(histogram.edges, values[values != 0.0], side="right") - 1
    assert np.array_equal(histogram.counts, np.bincount(bins, minlength=BINS))


@settings(max_examples=80)
@given(PARTS)
def test_counts_are_those_of_all_numbers_at_once(parts: list[np.ndarray]) -> None:
    values = np.concatenate(parts)
    histogram = _observed(*parts)
    if values.size:
        _check_against_numpy(histogram, values)
    else:
        assert _same(histogram, Histogram())


@settings(max_examples=80)
@given(PARTS, st.randoms(use_true_random=False), st.integers(0, 6))
def test_merging_is_bit_identical_in_any_order_and_grouping(
    parts: list[np.ndarray], random: object, split: int
) -> None:
    whole = _observed(np.concatenate(parts))
    shuffled = list(parts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    left = [_observed(part) for part in shuffled[:split]]
    right = [_observed(part) for part in shuffled[split:]]
    from_left, from_right = Histogram(), Histogram()
    for part in left:
        from_left = from_left.merged(part)
    for part in reversed(right):
        from_right = part.merged(from_right)
    assert _same(from_left.merged(from_right), whole)
    assert _same(from_right.merged(from_left), whole)


@given(st.lists(hnp.arrays(np.float32, 5, elements=FLOATS), min_size=3, max_size=3))
@settings(max_examples=40)
def test_merging_is_associative(parts: list[np.ndarray]) -> None:
    a, b, c = (_observed(part) for part in parts)
    assert _same(a.merged(b).merged(c), a.merged(b.merged(c)))


@pytest.mark.parametrize("scale", [1e-35, 1e-30, 1e-3, 1.0, 255.0, 600.0, 1e30])
def test_activations_of_usual_shapes(scale: float) -> None:
    generator = np.random.default_rng(1)
    values = (generator.standard_normal((3, 1, 8, 16, 16)) * scale).astype(np.float32)
    _check_against_numpy(_observed(*values), values)
    rectified = np.maximum(values, 0.0)
    histogram = _observed(*rectified)
    _check_against_numpy(histogram, rectified)
    assert histogram.zeros > rectified.size * 0.4


def test_powers_of_two_at_the_ends_of_the_range() -> None:
    assert _observed(np.array([-4.0])).exponent == 2  # [-4, 4) holds -4
    assert _observed(np.array([4.0])).exponent == 3  # but not 4
    assert _observed(np.array([3.999, -4.0])).exponent == 2
    assert _observed(np.array([0.0, -0.0])).exponent == MIN_EXPONENT
    largest = np.finfo(np.float32).max
    assert _observed(np.array([largest], np.float32)).extremes.high == largest


def test_doubling_keeps_every_count() -> None:
    histogram = _observed(np.array([1e-40, -1e-40, 0.3, 0.0], np.float32), np.array([1e38], np.float32))
    half = BINS // 2
    assert histogram.counts[half] == 2  # 1e-40 and 0.3: above zero, below a bin's width
    assert histogram.counts[half - 1] == 1
    assert histogram.zeros == 1
    assert histogram.counts.sum() == 4


def test_observing_leaves_the_original_and_its_input_alone() -> None:
    values = np.array([1.0, 2.0], np.float32)
    first = _observed(values)
    before = first.counts.copy()
    first.observed(np.array([100.0], np.float32), "v")
    assert np.array_equal(first.counts, before)
    assert values.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        first.counts[0] = 1


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("observer", [Extremes(), Histogram()])
def test_non_finite_activations_name_the_value(observer: Extremes | Histogram, bad: float, word: str) -> None:
    with pytest.raises(ModelError, match=word) as caught:
        observer.observed(np.array([0.0, bad, 1.0], np.float32), "conv3_out")
    assert caught.value.where == "conv3_out"
    assert caught.value.exit_code is ExitCode.MODEL


@settings(max_examples=40)
@given(hnp.arrays(np.float32, st.integers(0, 20), elements=FLOATS))
def test_pickles_exactly(values: np.ndarray) -> None:
    histogram = _observed(values)
    again = pickle.loads(pickle.dumps(histogram))
    assert _same(again, histogram)
    with pytest.raises(ValueError, match="read-only"):
        again.counts[0] = 1


def test_pickles_in_few_bytes() -> None:
    histogram = _observed(np.random.default_rng(1).standard_normal(30_000).astype(np.float32))
    assert len(pickle.dumps(histogram)) < 2 * BINS + 500


def test_memory_does_not_depend_on_what_was_seen() -> None:
    histogram = _observed(*(np.random.default_rng(n).standard_normal(1000) * 10.0 ** (n - 5) for n in range(10)))
    assert histogram.counts.nbytes == Histogram().counts.nbytes == 8 * BINS
    assert histogram.counts.sum() + histogram.zeros == 10_000
