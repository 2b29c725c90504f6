"""Softmax and LogSoftmax in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_softmax(agrees: Check) -> None:
    nodes = [node("Softmax", ["x"], [f"softmax{axis}"], axis=axis) for axis in (1, 2, -1)]
    agrees(nodes, {"x": normal(1, 6, 4, 5)}, rtol=8e-6, atol=4e-6)


def test_log_softmax(agrees: Check) -> None:
    nodes = [node("LogSoftmax", ["x"], [f"log{axis}"], axis=axis) for axis in (1, 2, -1)]
    agrees(nodes, {"x": 5 * normal(1, 6, 4, 5)}, rtol=8e-6, atol=4e-6)
