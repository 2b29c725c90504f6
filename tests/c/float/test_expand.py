"""Expand in C, to the bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_expand_is_exact(agrees: Check) -> None:
    nodes = [node("Expand", ["x", "two"], ["expand"]), node("Expand", ["column", "two"], ["repeated"])]
    inputs = {"x": normal(1, 4, 5, 6), "column": normal(4, 1, 6)}
    agrees(nodes, inputs, {"two": np.array([2, 4, 5, 6])}, rtol=0, atol=0)
