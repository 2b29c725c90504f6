"""The padding that is really read, from impulses that ONNX Runtime's windows see or do not see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node, view_of
from onnx import helper

from nnkit.graph.read.window import read_window
from nnkit.graph.refusal import Refused


@pytest.mark.parametrize(
    ("size", "attributes"),
    [
        ((7, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((8, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),  # the last column is not read
        ((6, 9), {"kernel_shape": [2, 3], "strides": [3, 2], "pads": [0, 1, 0, 2]}),
        ((5, 5), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
        ((6, 6), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
        ((6, 6), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ],
)
def test_padding_that_is_read_counts_as_zeros(size: tuple[int, int], attributes: dict[str, Any]) -> None:
    """A convolution of ones without padding over the input padded by `pads_read` gives ONNX Runtime's numbers."""
    op = "MaxPool" if "ceil_mode" in attributes else "Conv"
    weight = {} if op == "MaxPool" else {"w": np.ones((1, 1, *attributes["kernel_shape"]), np.float32)}
    case = one_node(op, (1, 1, *size), weight, **attributes)
    window = read_window(case.view, case.node)
    top, left, bottom, right = window.pads_read
    padded = np.pad(case.x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=0 if weight else -np.inf)
    plain = {key: value for key, value in attributes.items() if key in ("kernel_shape", "strides")}
    cut = one_node(op, padded, weight, **plain)
    np.testing.assert_array_equal(cut.y, case.y)
    assert window.reads_padding == bool(top or left or bottom or right)


def test_partial_windows_reach_beyond_the_stated_padding() -> None:
    case = one_node("MaxPool", (1, 1, 6, 6), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    window = read_window(case.view, case.node)
    assert window.ceil_mode
    assert window.has_partial_windows
    assert (window.pads, window.pads_read) == ((0, 0, 0, 0), (0, 0, 1, 1))


def test_one_dimension_is_one_row_where_asked_for() -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2], pads=[1, 0])
    view = view_of([node], {"x": (1, 2, 9)})
    window = read_window(view, view.nodes[0], one_row=True)
    assert (window.kernel, window.strides, window.dilations) == ((1, 3), (1, 2), (1, 1))
    assert (window.pads, window.input_hw, window.output_hw) == ((0, 1, 0, 0), (1, 9), (1, 4))
    with pytest.raises(Refused, match="slides over 1 dimensions"):
        read_window(view, view.nodes[0])
