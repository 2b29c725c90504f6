"""The divergence against exact integrals of known densities, and what the method must not do to heavy tails."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from nnkit.calibrate import Extremes, Histogram, kl_range, max_range
from nnkit.calibrate.kl import _Density, divergence
from nnkit.calibrate.observers import BINS
from nnkit.calibrate.ranges import Grid, mean_squared_error

NUMBERS = 10**9

Cumulative = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def normal(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([0.5 * (1.0 + math.erf(v / math.sqrt(2.0))) for v in x.ravel()]).reshape(x.shape)


def laplace(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0)), 1.0 - 0.5 * np.exp(-np.maximum(x, 0)))


def histogram_of(cumulative: Cumulative, exponent: int) -> Histogram:
    """A histogram of a billion numbers that are distributed exactly as they should be."""
    reach = 2.0**exponent
    edges = np.linspace(-reach, reach, BINS + 1)
    counts = np.rint(np.diff(cumulative(edges)) * NUMBERS).astype(np.int64)
    filled = np.flatnonzero(counts)
    low, high = float(edges[filled[0]]), float(np.nextafter(edges[filled[-1] + 1], 0.0))
    return Histogram(Extremes(low, high, int(counts.sum())), exponent, counts, 0)


def brute_force(cumulative: Cumulative, grid: Grid, reach: float) -> float:
    """KL(P || Q) from the definition, level by level in 64 parts, from the exact distribution within +-reach."""
    parts = 64
    edges = grid.step * (np.arange(grid.qmin * parts, (grid.qmax + 1) * parts + 1) / parts - 0.5)
    masses = np.diff(cumulative(np.clip(edges, -reach, reach)))
    q = np.repeat(masses.reshape(-1, parts).mean(axis=1), parts)
    p = masses.copy()
    everything = cumulative(np.array([-reach, reach]))
    for level, folded in (
        (slice(None, parts), cumulative(np.clip(edges[:1], -reach, reach))[0] - everything[0]),
        (slice(-parts, None), everything[1] - cumulative(np.clip(edges[-1:], -reach, reach))[0]),
    ):
        p[level] *= 1.0 + folded / p[level].sum()  # as the level's own numbers are spread
    p, q = p / p.sum(), q / q.sum()
    return float(sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0.0))


@pytest.mark.parametrize(("cumulative", "exponent"), [(normal, 3), (laplace, 5)])
@pytest.mark.parametrize("share", [0.9, 0.6, 0.4, 0.25])
def test_divergence_is_that_of_the_exact_distribution(cumulative: Cumulative, exponent: int, share: float) -> None:
    histogram = histogram_of(cumulative, exponent)
    largest = max(-histogram.extremes.low, histogram.extremes.high)
    grid = Grid(largest * share / 127, -127, 127)
    # The end level's own shape weighs the folded numbers a little: the brute force keeps it, kl_range takes it even.
    expected = brute_force(cumulative, grid, largest)
    assert divergence(_Density(histogram), grid) == pytest.approx(expected, rel=0.03, abs=2e-6)


@pytest.mark.parametrize(("cumulative", "exponent"), [(normal, 3), (laplace, 5)])
def test_chosen_range_has_the_least_divergence_of_the_exact_distribution(
    cumulative: Cumulative, exponent: int
) -> None:
    histogram = histogram_of(cumulative, exponent)
    largest = max(-histogram.extremes.low, histogram.extremes.high)
    shares = np.linspace(0.2, 1.0, 81)
    exact = [brute_force(cumulative, Grid(largest * s / 127, -127, 127), largest) for s in shares]
    chosen = kl_range(histogram, 8, True, "symmetric").high
    assert brute_force(cumulative, Grid(chosen / 127, -127, 127), largest) <= min(exact) * 1.1 + 1e-7


def test_narrow_levels_get_no_free_ride() -> None:
    """Levels as narrow as the histogram's bins: counted bin by bin the divergence inside would be 0."""
    histogram = histogram_of(laplace, 5)
    grid = Grid(histogram.width, -127, 127)  # clips numbers beyond 2 deviations
    assert divergence(_Density(histogram), grid) > brute_force(laplace, grid, 30.0) * 0.9 > 0.0


@pytest.mark.parametrize("kind", ["power_of_two", "symmetric", "affine"])
def test_few_large_numbers_are_not_given_up(kind: str) -> None:
    """Half the signal's energy in a thousandth of the numbers: a divergence alone would clip it."""
    rng = np.random.default_rng(0)
    numbers = np.concatenate([np.abs(rng.laplace(0, 0.02, 99_900)), rng.uniform(2.0, 8.0, 100)])
    histogram = Histogram().observed(numbers, "v")
    found = kl_range(histogram, 8, False, kind)  # type: ignore[arg-type]
    clipped = np.square(numbers - np.clip(numbers, found.low, found.high)).sum()
    assert clipped < 0.001 * np.square(numbers).sum()


def test_never_a_larger_squared_error_than_without_clipping() -> None:
    rng = np.random.default_rng(1)
    for numbers in (rng.normal(0, 1, 50_000), rng.standard_t(3, 50_000), rng.uniform(-1, 1, 50_000)):
        histogram = Histogram().observed(numbers, "v")
        largest = max(-histogram.extremes.low, histogram.extremes.high)
        high = max(-(found := kl_range(histogram, 8, True, "symmetric")).low, found.high)
        errors = [mean_squared_error(histogram, end / 127, -127, 127) for end in (high, largest)]
        assert errors[0] <= errors[1] * (1 + 1e-9)


def test_nothing_seen_and_nothing_but_zeros() -> None:
    assert kl_range(Histogram(), 8, True) == max_range(Extremes())
    zeros = Histogram().observed(np.zeros(5), "v")
    assert kl_range(zeros, 8, True) == max_range(zeros.extremes)
