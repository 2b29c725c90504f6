"""LayerNormalization and InstanceNormalization in C against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper
from segment_networks import normal

Check = Callable[..., None]
node = helper.make_node


def test_layer_normalization(agrees: Check) -> None:
    nodes = [
        node("LayerNormalization", ["x", "last", "last"], ["over_last"]),
        node("LayerNormalization", ["x", "two"], ["over_two"], axis=-2, epsilon=0.1),
        node("LayerNormalization", ["x", "one", "last"], ["one_scale"]),
    ]
    constants = {"last": normal(7, seed=1), "two": normal(5, 7, seed=2), "one": normal(1, seed=3)}
    agrees(nodes, {"x": 3 * normal(1, 4, 5, 7) + np.float32(1)}, constants, rtol=1e-5, atol=4e-6)


def test_layer_normalization_of_computed_scales(agrees: Check) -> None:
    nodes = [node("LayerNormalization", ["x", "scale", "bias"], ["y"])]
    agrees(nodes, {"x": normal(1, 9, 7), "scale": normal(7), "bias": normal(7, seed=5)}, rtol=1e-5, atol=4e-6)


def test_instance_normalization(agrees: Check) -> None:
    nodes = [node("InstanceNormalization", ["x", "scale", "bias"], ["y"])]
    constants = {"scale": normal(6, seed=1), "bias": normal(6, seed=2)}
    agrees(nodes, {"x": 2 * normal(1, 6, 13, 11) - np.float32(0.5)}, constants, rtol=1e-5, atol=4e-6)
