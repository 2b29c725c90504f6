"""Gemm in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_gemm(agrees: Check) -> None:
    nodes = [
        node("Gemm", ["x", "w", "c"], ["gemm"]),
        node("Gemm", ["x", "wt", "c"], ["turned"], transB=1, alpha=0.5),
        node("Gemm", ["x", "w", "c"], ["scaled"], beta=2.0),
        node("Gemm", ["w", "m"], ["no_c"], transA=1),
    ]
    w = normal(6, 5)
    constants = {"w": w, "wt": np.ascontiguousarray(w.T), "c": normal(5, seed=3), "m": normal(6, 2)}
    agrees(nodes, {"x": normal(1, 6)}, constants, atol=4e-6)
