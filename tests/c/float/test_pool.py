"""Pools in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto, helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


POOLS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    {"kernel_shape": [3, 3], "strides": [1, 2], "pads": [0, 1, 1, 0]},
    {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
]


def test_pools(agrees: Check) -> None:
    nodes: list[NodeProto] = []
    for index, attributes in enumerate(POOLS):
        nodes.append(node("MaxPool", ["x"], [f"max{index}"], **attributes))
        for count in (0, 1):
            name = f"average{index}_{count}"
            nodes.append(node("AveragePool", ["x"], [name], count_include_pad=count, **attributes))
    nodes += [node("GlobalAveragePool", ["x"], ["global"]), node("GlobalMaxPool", ["x"], ["global_max"])]
    nodes.append(node("MaxPool", ["x"], ["dilated"], kernel_shape=[2, 2], dilations=[2, 3]))
    agrees(nodes, {"x": normal(1, 3, 7, 8) - np.float32(2)})


def test_one_dimension(agrees: Check) -> None:
    nodes = [
        node("MaxPool", ["x"], ["max"], kernel_shape=[3], strides=[2], pads=[1, 1]),
        node("AveragePool", ["x"], ["average"], kernel_shape=[2], strides=[2]),
        node("GlobalAveragePool", ["x"], ["global"]),
    ]
    agrees(nodes, {"x": normal(1, 3, 9)})
