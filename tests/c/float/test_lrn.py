"""LRN in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_lrn(agrees: Check) -> None:
    nodes = [node("LRN", ["x"], [f"lrn{size}"], size=size, alpha=0.1, beta=0.6, bias=1.5) for size in (3, 5, 7)]
    agrees(nodes, {"x": normal(1, 6, 4, 5)}, rtol=8e-6, atol=4e-6)
