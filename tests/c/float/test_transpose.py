"""Transpose in C, to the bit."""

from __future__ import annotations

from collections.abc import Callable

from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_transpose_is_exact(agrees: Check) -> None:
    nodes = [node("Transpose", ["x"], ["nhwc"], perm=[0, 2, 3, 1]), node("Transpose", ["x"], ["turned"])]
    agrees(nodes, {"x": normal(1, 4, 5, 6)}, rtol=0, atol=0)
