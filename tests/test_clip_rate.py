"""Clip rates, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from nnkit.clip_rate import ClipSum, can_clip
from nnkit.program import Affine, Fixed, Float, Tensor


@pytest.mark.parametrize(
    ("tensor", "clipped"),
    [
        # s8.1 holds -64 to 63.5; half a unit more is rounded into it.
        (Tensor("t", (4,), Fixed(8, 1), -128, 127), [-64.26, 63.76]),
        # Its producer clips to the integers -4 to 6, which are -2 to 3.
        (Tensor("t", (4,), Fixed(8, 1), -4, 6), [-64.26, -64.24, -2.26, 3.3, 63.74, 63.76]),
        # (0 - 10) * 0.5 = -5 to (255 - 10) * 0.5 = 122.5
        (Tensor("t", (4,), Affine(8, (0.5,), (10,)), 0, 255), [-64.26, -64.24]),
    ],
)
def test_what_counts_lies_more_than_half_a_unit_beyond_the_ends(tensor: Tensor, clipped: list[float]) -> None:
    values = np.asarray([-64.26, -64.24, -2.26, -2.24, 0.0, 3.24, 3.3, 63.74, 63.76], np.float32)
    one, other = ClipSum(tensor), ClipSum(tensor)
    one.add(values[:4])
    other.add(values[4:])
    one.merge(other)
    assert one.rate == pytest.approx(len(clipped) / values.size)
    each = [value for value in values if _rate(tensor, value)]
    assert each == pytest.approx(clipped)


@pytest.mark.parametrize("form", [Affine(8, (2.0**-8,), (0,)), Fixed(8, 8, signed=False)], ids=["affine", "fixed"])
def test_a_share_of_one_is_not_clipped_by_a_format_of_shares(form: Affine | Fixed) -> None:
    shares = Tensor("t", (4,), form, 0, 255)
    assert _rate(shares, 1.0) == 0.0  # 255/256: one unit off, which no other range would mend
    assert _rate(shares, 1.001) == 1.0


def _rate(tensor: Tensor, value: float) -> float:
    found = ClipSum(tensor)
    found.add(np.asarray([value]))
    return found.rate


def test_floats_and_scales_by_channel_have_no_clip_rate() -> None:
    assert not can_clip(Tensor("t", (4,), Float(32)))
    assert not can_clip(Tensor("t", (2,), Affine(8, (0.5, 0.25), (0, 0), axis=0, signed=True), -128, 127))
    assert ClipSum(Tensor("t", (4,), Fixed(8, 1), -128, 127)).rate == 0.0
