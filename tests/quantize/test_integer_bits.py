"""Fraction bits: the published formula by hand, and the finest that fits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnkit.program import Fixed
from nnkit.quantize.integer_bits import fraction_bits


@pytest.mark.parametrize(
    ("extreme", "bits", "signed", "frac"),
    [
        (3.0, 16, True, 13),  # ceil(log2 3) = 2 integer bits: 15 - 2
        (0.3, 16, True, 16),  # ceil(log2 0.3) = -1
        (200.0, 8, True, -1),  # ceil(log2 200) = 8
        (200.0, 8, False, 0),  # unsigned: one bit more
        (
            4.0,
            16,
            True,
            12,
        ),  # exact power of two: 4 * 2^13 = 32768 does not fit, the published formula is a bit short
        (0.0, 16, True, 15),  # all zero: the published formula is undefined
        (255.0, 16, True, 7),
    ],
)
def test_fraction_bits_by_hand(extreme: float, bits: int, signed: bool, frac: int) -> None:
    assert fraction_bits(0.0, extreme, bits, signed) == frac


@given(st.floats(1e-4, 1e4), st.sampled_from([8, 16]))
def test_fraction_bits_is_the_finest_that_fits(extreme: float, bits: int) -> None:
    frac = fraction_bits(-extreme, extreme, bits, True)
    form = Fixed(bits, frac)
    assert np.floor(extreme * 2.0**frac + 0.5) <= form.qmax
    assert frac == 30 or np.floor(extreme * 2.0 ** (frac + 1) + 0.5) > form.qmax


def test_ranges_that_fit_no_format_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 8 bits"):
        fraction_bits(0, 1e9, 8, True)
