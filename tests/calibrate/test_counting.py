"""Counting in C beside counting in numpy, and what happens where there is no C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nnkit.calibrate import counting
from nnkit.calibrate.counting import WORTH_COMPILING, BinCounts, counter_for
from nnkit.calibrate.observers import BINS, bin_counts, range_exponent
from nnkit.host_compiler import host_compiler


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> BinCounts:
    if host_compiler() is None:
        pytest.skip("no C compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NNKIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        found = counter_for(WORTH_COMPILING)
    assert found is not bin_counts
    return found


@settings(max_examples=200)
@given(
    numbers=arrays.arrays(
        np.float32, st.integers(1, 300), elements=st.floats(-100.0, 100.0, width=32, allow_subnormal=True)
    ),
    scale=st.integers(-40, 40),
    below=st.integers(0, 4),
)
def test_counts_are_those_of_the_edges(in_c: BinCounts, numbers: np.ndarray, scale: int, below: int) -> None:
    """Against a search of every number among the edges, on either side of each edge too."""
    numbers = numbers * np.float32(2.0**scale)
    edge = np.float32(2.0 ** (scale - 3))
    numbers = np.concatenate([numbers, [edge, np.nextafter(edge, np.float32(0)), -edge, np.float32(-0.0)]])
    numbers = numbers.astype(np.float32)
    exponent = max(range_exponent(0.0, float(numbers.max())), range_exponent(float(numbers.min()), 0.0) - below)
    counts, zeros = in_c(numbers, exponent, below)
    width = 2.0 ** (exponent + 1) / BINS
    edges = np.arange(-(BINS // 2 << below), BINS // 2 + 1) * width
    inside = numbers[numbers != 0.0].astype(np.float64)
    assert np.array_equal(counts, np.bincount(np.searchsorted(edges, inside, "right") - 1, minlength=len(edges) - 1))
    assert zeros == np.sum(numbers == 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_large_arrays_of_any_kind(in_c: BinCounts, dtype: type[np.floating]) -> None:
    numbers = np.random.default_rng(3).standard_normal((3, 70, 301)).astype(dtype)
    numbers[0] = 0
    for array in (numbers, numbers[:, ::2], numbers.transpose(2, 0, 1)):
        counts, zeros = in_c(array, 3, 0)
        expected, _ = np.histogram(array[array != 0], np.arange(-BINS // 2, BINS // 2 + 1) * (16.0 / BINS))
        assert np.array_equal(counts, expected)
        assert zeros == np.sum(array == 0)


def test_little_is_counted_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path))
    assert counter_for(1000) is bin_counts
    assert list(tmp_path.iterdir()) == []


def test_what_was_compiled_once_is_used_for_little_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if host_compiler() is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("NNKIT_CACHE", str(tmp_path))
    assert counter_for(WORTH_COMPILING) is not bin_counts
    counting._compiled.cache_clear()
    assert counter_for(1000) is not bin_counts
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
    assert counter_for(WORTH_COMPILING) is bin_counts
