"""Gelu and Erf in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper

Check = Callable[..., None]
node = helper.make_node


def test_gelu(agrees: Check) -> None:
    nodes = [
        node("Gelu", ["x"], ["exact"]),
        node("Gelu", ["x"], ["tanh"], approximate="tanh"),
        node("Erf", ["x"], ["erf"]),
    ]
    agrees(nodes, {"x": np.linspace(-6, 6, 2001, dtype=np.float32).reshape(1, -1)})
