"""How wide a sum of affine integers is: 32 bits hold magnitudes up to 2^31 - 1, and not one more."""

from __future__ import annotations

import pytest

from nnkit.quantize.affine.accumulators import sum_accumulator


@pytest.mark.parametrize(("largest", "accumulator"), [(0, "int32"), ((1 << 31) - 1, "int32"), (1 << 31, "int64")])
def test_thirty_two_bits_end_below_two_to_the_31(largest: int, accumulator: str) -> None:
    assert sum_accumulator(largest) == accumulator
