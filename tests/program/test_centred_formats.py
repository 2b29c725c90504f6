"""Formats whose stored zero stands for another number."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.clip_rate import ClipSum
from nnkit.program import Affine, Float, Tensor


def test_integers_reach_from_nothing_to_the_end_of_the_range() -> None:
    """-128 is zero and 127 is 255 steps, as of what a ReLU gives."""
    form = Affine(8, (0.5,), (0,), signed=True, centre=64.0)
    assert form.dequantize(np.array([-128, 0, 127])).tolist() == [0.0, 64.0, 127.5]
    assert form.quantize(np.array([-3.0, 0.0, 0.6, 127.5, 130.0])).tolist() == [-128, -128, -127, 127, 127]
    assert str(form) == "s8 affine 0.5, zero at -128"


def test_floats() -> None:
    form = Float(32, centre=2.0)
    assert form.quantize(np.array([2.0, 0.5])).tolist() == [0.0, -1.5]
    assert form.dequantize(np.array([0.0, -1.5])).tolist() == [2.0, 0.5]


@pytest.mark.parametrize(("value", "clipped"), [(0.0, 0.0), (127.5, 0.0), (128.5, 1.0), (-1.0, 1.0)])
def test_what_does_not_fit_is_what_lies_beyond_both_ends(value: float, clipped: float) -> None:
    form = Affine(8, (0.5,), (0,), signed=True, centre=64.0)
    total = ClipSum(Tensor("x", (1,), form, -128, 127))
    total.add(np.array([value]))
    assert total.rate == clipped
