"""Pools that round their size up: as many windows as ONNX Runtime and PyTorch have, with their values."""

from __future__ import annotations

import itertools
from math import ceil
from typing import Any

import numpy as np
import pytest
from onnx import helper

from nnkit.errors import ModelError
from nnkit.importers import import_onnx


def _windows(side: int, kernel: int, stride: int, pad: int, dilation: int = 1) -> int:
    """PyTorch's `pooling_output_shape`."""
    count = ceil((side + 2 * pad - dilation * (kernel - 1) - 1) / stride) + 1
    return count - 1 if (count - 1) * stride >= side + pad else count


def test_sizes_and_values_of_all_kinds(make_model: Any, save: Any, run_onnx: Any) -> None:
    """Windows that begin in the padding, that reach into it, and that read none."""
    nodes, outputs, sizes = [], {}, {}
    shapes = [*itertools.product((1, 2, 3), (1, 2, 3, 4), (0, 1), (1,)), (2, 4, 1, 2), (3, 2, 1, 2)]
    for number, (kernel, stride, pad, dilation) in enumerate(shapes):
        if pad >= kernel:
            continue
        for kind in ("MaxPool", "AveragePool", "LpPool"):
            name = f"{kind}{number}"
            options = {"ceil_mode": 1, "kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
            nodes.append(helper.make_node(kind, ["x"], [name], name=name, dilations=[dilation] * 2, **options))
            outputs[name] = [1, 2, 99, 99]  # exporters write sizes that ONNX Runtime does not have
            sizes[name] = (1, 2, *(_windows(side, kernel, stride, pad, dilation) for side in (5, 6)))
    path = save(make_model(nodes, opset=19, inputs={"x": [1, 2, 5, 6]}, outputs=outputs))
    model = import_onnx(path).model
    assert {spec.name: spec.shape for spec in model.outputs} == sizes
    x = np.random.default_rng(2).standard_normal((1, 2, 5, 6)).astype(np.float32)
    expected, actual = run_onnx(path.read_bytes(), {"x": x}), run_onnx(model.onnx_bytes, {"x": x})
    for name in outputs:
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-6, err_msg=name)


def test_one_behind_another_and_a_mean_that_counts_padding(make_model: Any, save: Any, run_onnx: Any) -> None:
    pool = {"ceil_mode": 1, "kernel_shape": [2], "strides": [2], "pads": [1, 1]}
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], name="a", **pool),
        helper.make_node("MaxPool", ["a"], ["b"], name="b", **pool),
        helper.make_node("AveragePool", ["b"], ["y"], name="c", count_include_pad=1, **pool),
    ]
    path = save(make_model(nodes, inputs={"x": [1, 3, 9]}))
    model = import_onnx(path).model
    assert model.outputs[0].shape == (1, 3, 2)  # 9, 5, 3, 2
    x = np.random.default_rng(3).standard_normal((1, 3, 9)).astype(np.float32)
    np.testing.assert_allclose(
        run_onnx(model.onnx_bytes, {"x": x})["y"], run_onnx(path.read_bytes(), {"x": x})["y"], rtol=1e-6
    )


def test_a_mean_that_counts_padding_beyond_the_stated_is_refused(make_model: Any, save: Any) -> None:
    """Rows leave a window out, columns reach one column beyond their padding: no padding says both."""
    pool = {"ceil_mode": 1, "kernel_shape": [2, 3], "strides": [2, 2], "pads": [1, 0, 1, 0], "count_include_pad": 1}
    nodes = [helper.make_node("AveragePool", ["x"], ["y"], name="mean", **pool)]
    with pytest.raises(ModelError, match="layer 'mean'") as caught:
        import_onnx(save(make_model(nodes, inputs={"x": [1, 2, 5, 6]})))
    assert "ceil_mode" in caught.value.remedy
