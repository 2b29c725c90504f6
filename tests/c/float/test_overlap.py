"""Results written over the input that is still read: ONNX Runtime still agrees, in fewer bytes than both take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper
from segment_networks import network, normal

from nnkit.c.float.overlap import conv_accesses, pool_accesses
from nnkit.cpu_segments import emit_segment, run_segment
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.graph.read.window import SlidingWindow

VALUE_BYTES = 4
WINDOWS: list[dict[str, Any]] = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 1], "strides": [1, 2], "pads": [2, 0, 2, 0]},
    {"kernel_shape": [2, 3], "strides": [1, 1], "dilations": [2, 1]},
]


def arena_bytes(layer: NodeProto, channels: int, folder: Path, constants: dict[str, Any]) -> tuple[int, int]:
    """(working memory, bytes of input and result) of the layer between two others; values agree to the last units."""
    x = {"x": np.asarray(normal(1, channels, 12, 14))}
    nodes = [helper.make_node("Neg", ["x"], ["p"]), layer, helper.make_node("Neg", ["q"], ["y"])]
    model = network(nodes, x, constants)
    source = emit_segment(model, "part", folder)
    computed = run_segment(folder, "part", x, sanitize=True)["y"]
    (expected,) = FloatSession(model).run(x).values()
    np.testing.assert_allclose(computed, expected, rtol=2e-6, atol=2e-6)
    return source.arena_bytes, (x["x"].size + expected.size) * VALUE_BYTES


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_pools(tmp_path: Path, op_type: str, window: dict[str, Any]) -> None:
    layer = helper.make_node(op_type, ["p"], ["q"], **window)
    arena, apart = arena_bytes(layer, 6, tmp_path, {})
    assert arena < apart


@pytest.mark.parametrize("outputs", [6, 12])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_convolutions_of_groups(tmp_path: Path, outputs: int, window: dict[str, Any]) -> None:
    weights = {"w": np.asarray(normal(outputs, 1, *window["kernel_shape"]))}
    layer = helper.make_node("Conv", ["p", "w"], ["q"], group=6, **window)
    arena, apart = arena_bytes(layer, 6, tmp_path, weights)
    assert arena < apart


def test_distances_by_hand() -> None:
    """Of 3 maps of 4 x 4: a pool of 2 x 2 by 2 is never behind; a depthwise convolution needs one map of room."""
    halving = SlidingWindow((2, 2), (2, 2), (1, 1), (0, 0, 0, 0), False, (4, 4), (2, 2))
    assert pool_accesses(halving, 3).distance_bytes == 1
    same = SlidingWindow((3, 3), (1, 1), (1, 1), (1, 1, 1, 1), False, (4, 4), (4, 4))
    by_group = conv_accesses(same, 3, 3, 3)
    assert by_group is not None
    assert by_group.distance_bytes == 16 * VALUE_BYTES
    assert conv_accesses(same, 3, 3, 1) is None
