"""Gather in C, to the bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_is_exact(axis: int, agrees: Check) -> None:
    indices = np.array([[1, 0, 0], [-1, 1, 2]])
    agrees([node("Gather", ["x", "i"], ["y"], axis=axis)], {"x": normal(3, 4, 5)}, {"i": indices}, rtol=0, atol=0)
