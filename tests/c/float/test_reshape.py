"""Operators without code: their output is their input in another shape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_views_are_exact(agrees: Check) -> None:
    nodes = [
        node("Reshape", ["x", "shape"], ["reshape"]),
        node("Flatten", ["x"], ["flatten"]),
        node("Unsqueeze", ["x", "one"], ["unsqueeze"]),
        node("Squeeze", ["unsqueeze", "one"], ["squeeze"]),
        node("Relu", ["squeeze"], ["after_squeeze"]),
        node("Identity", ["x"], ["identity"]),
        node("Dropout", ["x"], ["dropout"]),
    ]
    outputs = [name for item in nodes for name in item.output if name != "squeeze"]
    constants = {"shape": np.array([1, 6, -1]), "one": np.array([1])}
    agrees(nodes, {"x": normal(1, 4, 5, 6)}, constants, outputs=outputs, rtol=0, atol=0)
