"""Convolutions in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


CONVS: dict[str, dict[str, Any]] = {
    "plain": {"pads": [1, 1, 1, 1]},
    "uneven": {"strides": [2, 1], "pads": [0, 1, 2, 0]},
    "dilated": {"dilations": [2, 2], "pads": [2, 2, 2, 2]},
    "grouped": {"group": 2, "pads": [1, 0, 1, 0]},
    "depthwise": {"group": 4},
    "same_upper": {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    "same_lower": {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
}


def test_conv(agrees: Check) -> None:
    nodes, constants = [], {"b": normal(8, seed=9)}
    for name, attributes in CONVS.items():
        constants[f"w_{name}"] = normal(8, 4 // attributes.get("group", 1), 3, 3) / np.float32(4)
        nodes.append(node("Conv", ["x", f"w_{name}", "b"], [name], **attributes))
    constants |= {"w1": normal(3, 9, 2)}
    nodes += [node("Conv", ["x", "w_plain"], ["no_bias"]), node("Conv", ["line", "w1"], ["line_conv"], strides=[2])]
    agrees(nodes, {"x": normal(1, 4, 9, 8), "line": normal(1, 9, 7)}, constants, atol=4e-6)


def test_weights_may_be_computed(agrees: Check) -> None:
    nodes = [node("Relu", ["w"], ["weights"]), node("Conv", ["x", "weights", "b"], ["y"], pads=[1, 1, 1, 1])]
    agrees(nodes, {"x": normal(1, 4, 5, 6), "w": normal(3, 4, 3, 3, seed=2), "b": normal(3)}, atol=4e-6)


@pytest.mark.parametrize("outputs", [1, 4, 6, 9])
def test_maps_side_by_side(agrees: Check, outputs: int) -> None:
    """Rows shorter and longer than a tile, strides, gaps, padding, single pixels; maps in fours and what is left."""
    nodes, constants = [], {"b": normal(outputs, seed=9)}
    for index, (kernel, attributes) in enumerate(
        [
            ((3, 3), {"pads": [1, 1, 1, 1]}),
            ((1, 1), {}),
            ((1, 1), {"strides": [2, 2]}),
            ((3, 5), {"strides": [2, 3], "pads": [1, 4, 0, 2]}),
            ((3, 3), {"dilations": [2, 5], "pads": [2, 5, 2, 5]}),
            ((1, 19), {"pads": [0, 9, 0, 9]}),
        ]
    ):
        constants[f"w{index}"] = normal(outputs, 3, *kernel, seed=index)
        nodes.append(helper.make_node("Conv", ["x", f"w{index}", "b"], [f"y{index}"], **attributes))
    agrees(nodes, {"x": normal(1, 3, 6, 39)}, constants, atol=8e-6)
