"""Accumulator bounds against exhaustive search."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nnkit.quantize.proof import running_bound, wide_bound


@given(st.integers(0, 2**32), st.integers(-40, 0), st.integers(0, 40), st.integers(0, 3), st.integers(0, 4))
def test_wide_bound_is_the_exact_worst_case(seed: int, low: int, high: int, bias_shift: int, shift: int) -> None:
    rng = np.random.default_rng(seed)
    weight, bias = rng.integers(-9, 9, (2, 3, 1, 1)), rng.integers(-50, 50, 2)
    sums = [
        sum(int(w) * x for w, x in zip(weight[o].ravel(), taps, strict=True)) + (int(bias[o]) << bias_shift)
        for o in range(2)
        for taps in itertools.product((low, 0, high), repeat=3)
    ]
    bound = wide_bound(weight, bias, low, high, bias_shift, shift)
    rounding = (1 << (shift - 1)) if shift else 0
    assert bound.high == max([0, *sums]) + rounding
    assert bound.low == min([0, *sums])


def test_running_bound_by_hand() -> None:
    # 2^15 << 4, plus (|3| + |-2|) * 100, plus 2^3
    assert running_bound(np.array([[[[3, -2]]]]), -100, 90, 4, 16).high == (1 << 19) + 500 + 8
