"""Counting in C beside counting in numpy, and what happens where there is no C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nnkit.c.host_compiler import host_compiler
from nnkit.calibrate import counting
from nnkit.calibrate.counting import WORTH_COMPILING, Count, Counted, fastest_count, numpy_count
from nnkit.calibrate.observers import BINS, MIN_EXPONENT, range_exponent


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> Count:
    if host_compiler() is None:
        pytest.skip("no C compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNKIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        found = fastest_count(WORTH_COMPILING)
    assert found is not numpy_count
    return found


def _check(counted: Counted | None, numbers: np.ndarray, exponents: tuple[int, int]) -> None:
    """Against a search of every number among the edges."""
    numbers = numbers.astype(np.float64).ravel()
    inside = numbers[numbers != 0.0]
    if numbers.min() < -(2.0 ** exponents[0]) or numbers.max() >= 2.0 ** exponents[1]:
        assert counted is None
        return
    widths = [2.0 ** (exponent + 1) / BINS for exponent in exponents]
    edges = np.concatenate([np.arange(-BINS // 2, 0) * widths[0], np.arange(BINS // 2 + 1) * widths[1]])
    assert counted is not None
    assert (counted.low, counted.high) == (numbers.min(), numbers.max())
    assert counted.zeros == len(numbers) - len(inside)
    expected = np.bincount(np.searchsorted(edges, inside, "right") - 1, minlength=BINS)
    assert np.array_equal(counted.counts, expected)


@settings(max_examples=200)
@given(
    numbers=arrays.arrays(
        np.float32, st.integers(1, 300), elements=st.floats(-100.0, 100.0, width=32, allow_subnormal=True)
    ),
    scale=st.integers(-60, 110),
    shift=st.tuples(st.integers(-1, 20), st.integers(-1, 20)),
)
def test_counts_are_those_of_the_edges(in_c: Count, numbers: np.ndarray, scale: int, shift: tuple[int, int]) -> None:
    """On either side of each edge too, and where numbers lie beyond."""
    numbers = numbers * np.float32(2.0**scale)
    edge = np.float32(2.0 ** (scale - 3))
    numbers = np.concatenate([numbers, [edge, np.nextafter(edge, np.float32(0)), -edge, np.float32(-0.0)]])
    numbers = numbers.astype(np.float32)
    low, high = float(numbers.min()), float(numbers.max())
    exponents = range_exponent(low, 0.0) + shift[0], range_exponent(0.0, high) + shift[1]
    for count in (in_c, numpy_count):
        _check(count(numbers, *exponents), numbers, exponents)


@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0])
def test_one_side_alone_and_the_smallest_numbers(in_c: Count, sign: float) -> None:
    numbers = np.float32([0.0, -0.0, 3.0, 2.0**-149, 2.0**-126, 1.5]) * np.float32(sign)
    own = range_exponent(float(numbers.min()), 0.0), range_exponent(0.0, float(numbers.max()))
    for exponents in (own, (20, 20), (MIN_EXPONENT, MIN_EXPONENT)):
        for count in (in_c, numpy_count):
            _check(count(numbers, *exponents), numbers, exponents)


@pytest.mark.parametrize("number", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1, 5000, 9999])
def test_what_is_not_finite_lies_beyond_any_range(in_c: Count, number: float, place: int) -> None:
    numbers = np.ones(10_000, np.float32)
    numbers[place] = number
    assert in_c(numbers, 127, 127) is None
    assert numpy_count(numbers, 127, 127) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_large_arrays_of_any_kind(in_c: Count, dtype: type[np.floating]) -> None:
    numbers = np.random.default_rng(3).standard_normal((3, 70, 301)).astype(dtype)
    numbers[0] = 0
    for array in (numbers, numbers[:, ::2], numbers.transpose(2, 0, 1)):
        _check(in_c(array, 3, 4), array, (3, 4))


def test_little_is_counted_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path))
    assert fastest_count(1000) is numpy_count
    assert list(tmp_path.iterdir()) == []


def test_what_was_compiled_once_is_used_for_little_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if host_compiler() is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path))
    assert fastest_count(WORTH_COMPILING) is not numpy_count
    counting._compiled.cache_clear()
    assert fastest_count(1000) is not numpy_count
    assert len(list((tmp_path / "native").iterdir())) == 1


@pytest.mark.parametrize("obstacle", ["no compiler", "a compiler that fails", "a library that is none", "a file"])
def test_whatever_is_in_the_way_numpy_counts(obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path / "cache"))
    if obstacle == "a file":
        (tmp_path / "cache").write_text("not a folder")
    else:
        compiler = tmp_path / "compiler"
        script = {"a compiler that fails": "exit 1", "a library that is none": 'echo no > "${@: -1}"'}.get(
            obstacle, ""
        )
        compiler.write_text(f"#!/bin/bash\n{script}\n")
        compiler.chmod(0o755)
        monkeypatch.setenv("CC", str(tmp_path / "absent") if obstacle == "no compiler" else str(compiler))
    assert fastest_count(WORTH_COMPILING) is numpy_count


def test_a_bin_may_hold_more_than_16_bits_count(in_c: Count) -> None:
    """What is kept in 16 bits on the way is added up before it overflows, also at lengths around that."""
    for size in (65_407 * 4, 65_408 * 4, 65_535 * 4 + 3, 1_000_001):
        numbers = np.full(size, 0.5, np.float32)
        _check(in_c(numbers, 0, 0), numbers, (0, 0))
