"""Reductions in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


KINDS = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"]


def test_reductions(agrees: Check) -> None:
    nodes = []
    for kind in KINDS:
        nodes.append(node(kind, ["x", "channels"], [f"{kind}_c"]))
        nodes.append(node(kind, ["x", "ends"], [f"{kind}_e"], keepdims=0))
        nodes.append(node(kind, ["x"], [f"{kind}_all"]))
        nodes.append(node(kind, ["x"], [f"{kind}_none"], noop_with_empty_axes=1))
    constants = {"channels": np.array([1]), "ends": np.array([-1, 1])}
    agrees(nodes, {"x": normal(1, 6, 4, 5)}, constants, rtol=8e-6, atol=4e-6)
