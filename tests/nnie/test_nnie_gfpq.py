"""GFPQ against the vendor library's golden vectors and against the definition, written out in plain Python."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnkit_nnie.gfpq.number_format import SMALLEST_MAGNITUDE, Gfpq

CASES = [(8, 16, 127), (16, 128, 1407)]


def by_definition(x: float, z: int, steps: int, top: int) -> float:
    """One value, as the definition reads."""
    if x >= 2.0 ** ((z - steps) / steps):
        k = round(steps * math.log2(x) - z)
        return 2.0 ** ((min(max(k, 0), top) + z) / steps)
    if x < -(2.0 ** ((z + 1 - steps) / steps)):
        k = round(steps * math.log2(-x) - z)
        return -(2.0 ** ((min(max(k, 1), top) + z) / steps))
    return 0.0


@pytest.mark.parametrize("bits", [8, 16])
def test_golden_vectors_of_the_vendor_library(bits, shared_dir: Path):
    golden = np.load(shared_dir / "models" / "gfpq_golden" / "gfpq_golden.npz")
    for index in range(4):
        x, y = golden[f"x_{bits}_{index}"], golden[f"y_{bits}_{index}"]
        form = Gfpq.for_magnitude(bits, float(np.abs(x).max()))
        assert form.z == int(golden[f"z_{bits}_{index}"])
        assert np.count_nonzero(form.through(x).astype(np.float32) != y) == 0
        assert np.array_equal(form.dequantize(form.quantize(x)).astype(np.float32), y)


@pytest.mark.parametrize(("bits", "steps", "top"), CASES)
@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_definition(bits, steps, top, data):
    largest = data.draw(st.floats(1e-5, 1e6))
    x = data.draw(st.floats(-2.0, 2.0)) * largest
    form = Gfpq.for_magnitude(bits, largest)
    assert float(form.through(np.asarray([x]))[0]) == by_definition(x, form.z, steps, top)


@pytest.mark.parametrize(("bits", "steps", "top"), CASES)
def test_boundaries_of_zero(bits, steps, top):
    form = Gfpq.for_magnitude(bits, 1.0)
    assert form.z == -top
    least = 2.0 ** (form.z / steps)
    # A positive value from half the smallest one up is stored; one step below it is zero.
    half = 2.0 ** ((form.z - steps) / steps)
    below = math.nextafter(half, 0.0)
    assert form.through(np.asarray([half, below])).tolist() == [least, 0.0]
    # The smallest negative magnitude is one code larger, and its own boundary belongs to zero.
    edge = 2.0 ** ((form.z + 1 - steps) / steps)
    beyond = math.nextafter(edge, 1.0)
    assert form.through(np.asarray([-edge, -beyond])).tolist() == [0.0, -(2.0 ** ((form.z + 1) / steps))]


@pytest.mark.parametrize("bits", [8, 16])
def test_values_beyond_the_range_saturate(bits):
    form = Gfpq.for_magnitude(bits, 1.0)
    assert form.largest == 1.0
    assert form.through(np.asarray([5.0, -5.0, np.inf, -np.inf])).tolist() == [1.0, -1.0, 1.0, -1.0]
    assert form.through(np.asarray([np.nan, 0.0, -0.0])).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("bits", [8, 16])
def test_all_zero_data_counts_as_one_millionth(bits):
    assert Gfpq.for_magnitude(bits, 0.0) == Gfpq.for_magnitude(bits, SMALLEST_MAGNITUDE)
    assert Gfpq.for_magnitude(bits, 1e-9) == Gfpq.for_magnitude(bits, 1e-6)
    assert not Gfpq.for_magnitude(bits, 0.0).through(np.zeros(3)).any()


@pytest.mark.parametrize(("bits", "steps", "top"), CASES)
def test_every_code_is_read_back_as_itself(bits, steps, top):
    form = Gfpq(bits, -37)
    codes = np.concatenate([np.arange(top + 1), form.zero + np.arange(top + 1)]).astype(form.dtype)
    values = form.dequantize(codes)
    assert len(set(values.tolist())) == 2 * top + 2
    assert np.array_equal(form.quantize(values), codes)


@pytest.mark.parametrize("bits", [8, 16])
def test_range_is_never_exceeded_and_lost_by_less_than_one_step(bits):
    steps = {8: 16, 16: 128}[bits]
    for largest in np.geomspace(1e-5, 1e5, 301):
        held = Gfpq.for_magnitude(bits, float(largest)).largest
        assert held <= largest * (1 + 1e-12)
        assert held > largest * 2.0 ** (-1 / steps) * (1 - 1e-12)


def test_what_is_no_code_or_no_magnitude_is_refused():
    with pytest.raises(ValueError, match="no code"):
        Gfpq(16, 0).dequantize(np.asarray([1408], np.uint16))
    with pytest.raises(ValueError, match="no code"):
        Gfpq(16, 0).dequantize(np.asarray([0x2000], np.uint16))
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="not a magnitude"):
            Gfpq.for_magnitude(8, wrong)
