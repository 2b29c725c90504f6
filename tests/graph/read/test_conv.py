"""Conv: read, computed by hand with the padding that is said to be read, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node, view_of
from onnx import helper

from nnkit.graph.read.conv import read_conv
from nnkit.graph.refusal import Refused

RNG = np.random.default_rng(3)
WEIGHT = RNG.standard_normal((4, 2, 3, 2)).astype(np.float32)
BIAS = RNG.standard_normal(4).astype(np.float32)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 0, 2, 1]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"dilations": [2, 3], "pads": [2, 3, 2, 3]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [3, 2]},
        {"auto_pad": "VALID", "strides": [1, 2]},
        {"group": 2, "kernel_shape": [3, 2], "pads": [1, 0, 1, 0]},
    ],
)
def test_the_reading_computes_what_onnx_runtime_does(attributes: dict[str, Any]) -> None:
    case = one_node("Conv", (1, 2 * attributes.get("group", 1), 9, 8), {"w": WEIGHT, "b": BIAS}, **attributes)
    conv = read_conv(case.view, case.node)
    window, (top, left, bottom, right) = conv.window, conv.window.pads_read
    x = np.pad(case.x[0], ((0, 0), (top, bottom), (left, right)))
    assert conv.bias is not None
    y = np.zeros(case.y.shape[1:])
    per_group = 4 // conv.groups
    for channel in range(4):
        part = x[channel // per_group * 2 :][:2]
        for row in range(y.shape[1]):
            for column in range(y.shape[2]):
                rows = row * window.strides[0] + np.arange(3) * window.dilations[0]
                columns = column * window.strides[1] + np.arange(2) * window.dilations[1]
                seen = part[:, rows[:, None], columns[None, :]]
                y[channel, row, column] = np.sum(seen * conv.weight[channel]) + conv.bias[channel]
    np.testing.assert_allclose(y, case.y[0], atol=1e-5)


def test_no_bias_is_none() -> None:
    case = one_node("Conv", (1, 2, 5, 5), {"w": WEIGHT})
    assert read_conv(case.view, case.node).bias is None
    assert read_conv(case.view, case.node).data == "x"


@pytest.mark.parametrize(
    ("inputs", "constants", "reason"),
    [
        (("x", "w"), {}, "its weights are not constant"),
        (("x", "w", "b"), {"w": WEIGHT}, "its bias is not constant"),
    ],
)
def test_computed_weights_and_bias_are_refused(
    inputs: tuple[str, ...], constants: dict[str, Any], reason: str
) -> None:
    shapes = {"x": (1, 2, 5, 5), "w": WEIGHT.shape, "b": BIAS.shape}
    computed = {name: shape for name, shape in shapes.items() if name not in constants}
    view = view_of([helper.make_node("Conv", list(inputs), ["y"])], computed, constants)
    with pytest.raises(Refused, match=reason):
        read_conv(view, view.nodes[0])


def test_one_dimension_is_refused() -> None:
    case = one_node("Conv", (1, 2, 9), {"w": np.ones((4, 2, 3), np.float32)})
    with pytest.raises(Refused, match="weights of 3 dimensions; only 2-D convolutions are supported"):
        read_conv(case.view, case.node)
