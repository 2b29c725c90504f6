"""ConvTranspose: scattered by hand, cut by the pads that were read, compared with ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import one_node

from nnkit.graph.read.conv_transpose import read_conv_transpose

RNG = np.random.default_rng(4)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3], "pads": [1, 0, 2, 1]},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        {"strides": [2, 2], "output_shape": [9, 10]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER", "output_shape": [9, 9]},
        {"strides": [2, 2], "auto_pad": "VALID"},
        {"strides": [2, 1], "dilations": [2, 1], "group": 2},
    ],
)
def test_the_reading_computes_what_onnx_runtime_does(attributes: dict[str, Any]) -> None:
    weight = RNG.standard_normal((4, 3, 3, 2)).astype(np.float32)
    case = one_node("ConvTranspose", (1, 4, 5, 5), {"w": weight}, **attributes)
    read = read_conv_transpose(case.view, case.node)
    full_h, full_w = (
        (read.input_hw[a] - 1) * read.strides[a] + (read.kernel[a] - 1) * read.dilations[a] + 1 for a in (0, 1)
    )
    full = np.zeros((read.output_channels, full_h + read.output_padding[0], full_w + read.output_padding[1]))
    inputs, outputs = 4 // read.groups, 3
    for i in range(4):
        group = i // inputs
        for row in range(5):
            for column in range(5):
                rows = row * read.strides[0] + np.arange(read.kernel[0]) * read.dilations[0]
                columns = column * read.strides[1] + np.arange(read.kernel[1]) * read.dilations[1]
                full[group * outputs : (group + 1) * outputs, rows[:, None], columns[None, :]] += (
                    case.x[0, i, row, column] * read.weight[i]
                )
    top, left, bottom, right = read.pads
    cut = full[:, top : full.shape[1] - bottom, left : full.shape[2] - right]
    np.testing.assert_allclose(cut, case.y[0], atol=1e-5)
    assert read.output_hw == case.y.shape[2:]
