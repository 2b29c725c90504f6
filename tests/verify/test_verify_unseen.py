"""Values outside what calibration saw: counted, and only where there is something to compare with."""

from __future__ import annotations

import numpy as np

from nnkit.calibrate import ValueRange
from nnkit.verify.unseen import UnseenSum


def seen(low: float, high: float) -> ValueRange:
    return ValueRange(low, high, low, high)


def test_the_share_and_the_largest_are_told_with_the_input_that_has_it() -> None:
    total = UnseenSum(seen(-1.0, 2.0))
    total.add(np.array([0.5, -1.0, 2.0]), "inside.png")
    total.add(np.array([3.0, -1.5, 0.0]), "outside.png")
    found = total.result()
    assert found is not None
    assert (found.share, found.factor, found.source) == (2 / 6, 1.5, "outside.png")


def test_an_empty_value_and_a_layer_that_calibration_saw_as_zero_say_nothing() -> None:
    total = UnseenSum(seen(-1.0, 2.0))
    total.add(np.zeros(0), "empty.png")
    assert total.result() is None
    silent = UnseenSum(seen(0.0, 0.0))
    silent.add(np.ones(3), "any.png")
    assert silent.result() is None
