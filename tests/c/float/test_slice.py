"""Slice and Split in C, to the bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_slice_is_exact(agrees: Check) -> None:
    constants = {"starts": np.array([-4, 4]), "ends": np.array([-1, -100])}
    constants |= {"axes": np.array([2, 3]), "steps": np.array([2, -2])}
    agrees([node("Slice", ["x", *constants], ["slice"])], {"x": normal(1, 4, 5, 6)}, constants, rtol=0, atol=0)


def test_split_is_exact(agrees: Check) -> None:
    split = node("Split", ["x", "parts"], ["first", "second"], axis=1)
    agrees([split], {"x": normal(1, 4, 5, 6)}, {"parts": np.array([1, 3])}, rtol=0, atol=0)
