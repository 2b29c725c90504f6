"""Concat in C, to the bit."""

from __future__ import annotations

from collections.abc import Callable

from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_concat_is_exact(agrees: Check) -> None:
    nodes = [
        node("Concat", ["x", "part", "x"], ["concat"], axis=1),
        node("Concat", ["x", "x"], ["concat_last"], axis=-1),
    ]
    agrees(nodes, {"x": normal(1, 4, 5, 6), "part": normal(1, 3, 5, 6, seed=2)}, rtol=0, atol=0)
