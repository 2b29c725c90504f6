"""MatMul in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_matmul(agrees: Check) -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["matmul"]),
        node("MatMul", ["s", "m2"], ["batches"]),
        node("MatMul", ["s", "s2"], ["both"]),
        node("MatMul", ["v", "w"], ["vector"]),
    ]
    inputs = {"x": normal(1, 6), "s": normal(1, 3, 2, 4), "s2": normal(1, 3, 4, 2), "v": normal(6)}
    agrees(nodes, inputs, {"w": normal(6, 5), "m2": normal(4, 3)}, atol=4e-6)
