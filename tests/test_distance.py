"""Distances against hand-worked examples and numpy's own formulas."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from nnkit.distance import Distance, DistanceSum, distance


def test_hand_worked_example() -> None:
    # a = (3, 4), r = (4, 3): a.r = 24, |a| = |r| = 5; errors (-1, 1): 25 / 2 -> 10.969 dB.
    found = distance(np.array([3, 4]), np.array([4, 3]))
    assert found.cosine == pytest.approx(24 / 25)
    assert found.sqnr_db == pytest.approx(10 * math.log10(25 / 2))
    assert found.max_abs == 1.0


def test_sum_over_inputs_equals_the_distance_of_everything_at_once() -> None:
    rng = np.random.default_rng(0)
    references = [rng.normal(0, 3, (2, 5)) for _ in range(4)]
    values = [r + rng.normal(0, 0.1, r.shape) for r in references]
    total = DistanceSum()
    for value, reference in zip(values, references, strict=True):
        total.add(value.astype(np.float32).reshape(5, 2), reference)  # only the number of elements counts
    a = np.concatenate([v.astype(np.float32).astype(np.float64).ravel() for v in values])
    r = np.concatenate([v.ravel() for v in references])
    found = total.result()
    assert found.cosine == pytest.approx(float(a @ r / np.linalg.norm(a) / np.linalg.norm(r)))
    assert found.sqnr_db == pytest.approx(20 * math.log10(np.linalg.norm(r) / np.linalg.norm(a - r)))
    assert found.max_abs == pytest.approx(float(np.max(np.abs(a - r))))


def test_equal_tensors() -> None:
    same = distance(np.arange(5), np.arange(5))
    assert same.cosine == pytest.approx(1.0)
    assert same.sqnr_db == math.inf
    assert same.max_abs == 0.0
    assert same.as_json()["sqnr_db"] is None


@pytest.mark.parametrize(
    ("value", "reference", "cosine", "sqnr_db", "max_abs"),
    [
        (np.zeros(3), np.zeros(3), 1.0, math.inf, 0.0),
        (np.ones(3), np.zeros(3), 0.0, -math.inf, 1.0),
        (np.zeros(3), np.ones(3), 0.0, 0.0, 1.0),
        (-np.ones(3), np.ones(3), -1.0, 10 * math.log10(3 / 12), 2.0),
    ],
)
def test_corners(value: np.ndarray, reference: np.ndarray, cosine: float, sqnr_db: float, max_abs: float) -> None:
    found = distance(value, reference)
    assert (found.cosine, found.max_abs) == pytest.approx((cosine, max_abs))
    assert found.sqnr_db == pytest.approx(sqnr_db)


def test_nothing_compared_is_no_difference() -> None:
    assert DistanceSum().result() == Distance(1.0, math.inf, 0.0)


def test_integers_do_not_overflow() -> None:
    big = np.full(4, 30_000, np.int16)
    assert distance(big, -big).max_abs == 60_000.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", ["value", "reference"])
def test_what_is_not_finite_never_looks_like_agreement(bad: float, side: str) -> None:
    good, broken = np.ones(3), np.array([1.0, bad, 1.0])
    total = DistanceSum()
    total.add(*((broken, good) if side == "value" else (good, broken)))
    total.add(good, good)
    found = total.result()
    assert all(math.isnan(number) for number in (found.cosine, found.sqnr_db, found.max_abs))
    assert found.max_abs != 0.0  # what `compare` asks
    assert json.dumps(found.as_json(), allow_nan=False) == '{"cosine": null, "sqnr_db": null, "max_abs": null}'
