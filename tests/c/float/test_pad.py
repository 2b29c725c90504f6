"""Pad in C, to the bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_pad_is_exact(agrees: Check) -> None:
    nodes = [
        node("Pad", ["x", "pads", "minus"], ["pad"]),
        node("Pad", ["x", "pads"], ["pad_edge"], mode="edge"),
        node("Pad", ["x", "pads"], ["pad_reflect"], mode="reflect"),
    ]
    constants = {"pads": np.array([0, 0, 1, 2, 0, 0, 3, 1]), "minus": np.float32(-1.5)}
    agrees(nodes, {"x": normal(1, 4, 5, 6)}, constants, rtol=0, atol=0)
