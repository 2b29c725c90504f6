"""Pools: maxima and averages by hand over what is read, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node, view_of
from onnx import helper

from nnkit.graph.read.pool import read_pool
from nnkit.graph.refusal import Refused


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2, 2]}),
        ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}),
        ("AveragePool", {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER"}),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
    ],
)
def test_the_reading_computes_what_onnx_runtime_does(op: str, attributes: dict[str, Any]) -> None:
    case = one_node(op, (1, 1, 8, 6), **attributes)
    pool = read_pool(case.view, case.node)
    window, (top, left, bottom, right) = pool.window, pool.window.pads_read
    x = np.pad(case.x[0, 0], ((top, bottom), (left, right)), constant_values=np.nan)
    if pool.counts_padding:
        x = np.nan_to_num(x)
    y = np.zeros(case.y.shape[2:])
    for row in range(y.shape[0]):
        for column in range(y.shape[1]):
            rows = row * window.strides[0] + np.arange(window.kernel[0]) * window.dilations[0]
            columns = column * window.strides[1] + np.arange(window.kernel[1]) * window.dilations[1]
            seen = x[rows[:, None], columns[None, :]]
            y[row, column] = np.nanmax(seen) if pool.kind == "max" else np.nanmean(seen)
    np.testing.assert_allclose(y, case.y[0, 0], atol=1e-6)
    assert pool.is_global == op.startswith("Global")


def test_indices_are_refused() -> None:
    view = view_of([helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2, 2])], {"x": (1, 1, 4, 4)})
    with pytest.raises(Refused, match="it gives out the indices of its maxima"):
        read_pool(view, view.nodes[0])


def test_global_pools_need_a_map() -> None:
    view = view_of([helper.make_node("GlobalAveragePool", ["x"], ["y"])], {"x": (1, 1, 4)})
    with pytest.raises(Refused, match="a tensor of 3 dimensions"):
        read_pool(view, view.nodes[0])
