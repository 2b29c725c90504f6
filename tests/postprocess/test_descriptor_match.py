"""Descriptor matching: numpy against plain Python integers and float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit.errors import UsageError
from nnkit.postprocess import DescriptorMatch, Gallery
from nnkit.postprocess.descriptor_match import unit_length
from nnkit.program import Fixed

ERROR_NULL, ERROR_FULL, ERROR_GALLERY = -1, -5, -6
NO_INDEX = 0xFFFFFFFF
ALL_ONES = (1 << 64) - 1


def int16(*values: int) -> np.ndarray:
    return np.array(values, np.int16)


def test_hand_worked_example() -> None:
    """Two fraction bits: 4 is 1.0. Entries (1, 0) and (0, 2), threshold 1.5."""
    gallery = Gallery(DescriptorMatch(length=2, format=Fixed(16, 2), capacity=3, threshold=1.5))
    assert gallery.params.limit == 36
    assert gallery.enrol(int16(4, 0)) == 0
    assert gallery.enrol(int16(0, 8)) == 1
    near = gallery.match(int16(5, 1))
    assert (near.known, near.index, near.squared_distance) == (True, 0, 2)
    at_limit = gallery.match(int16(0, 14))
    assert (at_limit.known, at_limit.index, at_limit.squared_distance) == (True, 1, 36)
    beyond = gallery.match(int16(1, 14))
    assert (beyond.known, beyond.index, beyond.squared_distance) == (False, 1, 37)


def test_empty_gallery_knows_nobody_and_a_full_one_takes_nobody() -> None:
    gallery = Gallery(DescriptorMatch(length=1, format=Fixed(16, 0), capacity=2, threshold=100.0))
    answer = gallery.match(int16(3))
    assert (answer.known, answer.index, answer.squared_distance) == (False, None, None)
    assert [gallery.enrol(int16(v)) for v in (1, 2, 3)] == [0, 1, None]
    assert len(gallery) == 2
    assert gallery.match(int16(3)).index == 1


def test_the_first_of_equals_wins() -> None:
    gallery = Gallery(DescriptorMatch(length=1, format=Fixed(16, 0), capacity=3, threshold=0))
    for value in (7, 3, 7):
        gallery.enrol(int16(value))
    assert gallery.match(int16(7)).index == 0
    assert gallery.match(int16(5)).index == 0


def test_an_enrolled_descriptor_is_copied() -> None:
    gallery = Gallery(DescriptorMatch(length=2, format=Fixed(16, 0), capacity=1, threshold=0))
    mine = int16(1, 2)
    gallery.enrol(mine)
    mine[:] = 9
    assert gallery.match(int16(1, 2)).known


@given(
    entries=st.lists(st.lists(st.integers(-32768, 32767), min_size=3, max_size=3), min_size=1, max_size=6),
    query=st.lists(st.integers(-32768, 32767), min_size=3, max_size=3),
    threshold=st.floats(0, 1e5),
)
@settings(max_examples=100, deadline=None)
def test_match_equals_plain_python(entries: list[list[int]], query: list[int], threshold: float) -> None:
    gallery = Gallery(DescriptorMatch(length=3, format=Fixed(16, 0), capacity=6, threshold=threshold))
    for entry in entries:
        gallery.enrol(int16(*entry))
    distances = [sum((a - b) ** 2 for a, b in zip(entry, query, strict=True)) for entry in entries]
    answer = gallery.match(int16(*query))
    assert answer.squared_distance == min(distances)
    assert answer.index == distances.index(min(distances))
    numerator, denominator = threshold.as_integer_ratio()
    assert answer.known == (min(distances) * denominator**2 <= numerator**2)


@pytest.mark.parametrize(
    ("threshold", "frac", "limit"),
    [(0.5, 1, 1), (0.75, 1, 2), (3.0, -1, 2), (1.0, 32, 2**64 - 1), (1e30, 0, 2**64 - 1)],
)
def test_limit_is_the_floor_of_the_scaled_square(threshold: float, frac: int, limit: int) -> None:
    assert DescriptorMatch(length=1, format=Fixed(16, frac), capacity=1, threshold=threshold).limit == limit


@given(st.lists(st.integers(-32768, 32767), min_size=1, max_size=40))
@settings(max_examples=200, deadline=None)
def test_unit_length_is_within_one_of_the_exact_value(values: list[int]) -> None:
    unit = unit_length(int16(*values))
    exact = np.array(values, np.float64)
    if exact.any():
        exact *= 2.0**14 / np.linalg.norm(exact)
    assert np.abs(unit - exact).max() <= 1.0 + 1e-6
    assert np.abs(unit).max() <= 1 << 14


def test_normalised_matching_ignores_length() -> None:
    params = DescriptorMatch(length=3, format=Fixed(16, 5), capacity=2, threshold=0.01, normalize=True)
    gallery = Gallery(params)
    gallery.enrol(int16(100, -200, 300))
    assert gallery.match(int16(10000, -20000, 30000)).known
    opposite = gallery.match(int16(-100, 200, -300))
    assert not opposite.known
    assert opposite.squared_distance == pytest.approx(4 * 2**28, rel=1e-3)  # |u - (-u)|^2 = 4


@pytest.mark.parametrize(
    "bad",
    [
        {"length": 0},
        {"length": 65537},
        {"capacity": 0},
        {"capacity": 2.0},
        {"format": Fixed(16, 33)},
        {"format": Fixed(32, 0)},
        {"threshold": -1.0},
        {"threshold": float("nan")},
        {"threshold": float("inf")},
    ],
)
def test_bad_parameters_are_refused(bad: dict) -> None:
    good = {"length": 4, "format": Fixed(16, 0), "capacity": 2, "threshold": 1.0}
    with pytest.raises(UsageError) as caught:
        DescriptorMatch(**{**good, **bad})
    assert caught.value.where == f"match.{next(iter(bad))}"
    assert caught.value.remedy


@pytest.mark.parametrize("descriptor", [np.zeros(3, np.int16), np.zeros(4, np.int32), np.zeros((1, 4), np.int16)])
def test_descriptor_of_another_kind_is_refused(descriptor: np.ndarray) -> None:
    gallery = Gallery(DescriptorMatch(length=4, format=Fixed(16, 0), capacity=2, threshold=1.0))
    with pytest.raises(UsageError, match="the descriptor is"):
        gallery.enrol(descriptor)
    with pytest.raises(UsageError, match="the descriptor is"):
        gallery.match(descriptor)
