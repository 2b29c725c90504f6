"""Float64 layers against ONNX Runtime: groups, strides, dilations, paddings, transposes, activations."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from nnkit.program import Window
from nnkit_nnie.gfpq import float64_layers
from nnkit_nnie.gfpq.float64_layers import InPlaceActivation, activate, convolution, transposed_convolution


def in_onnx_runtime(op: str, x, *constants, **attributes):
    """One node in ONNX Runtime, float32."""
    names = ["x", *[f"c{i}" for i in range(len(constants))]]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "one",
        [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape)
            for n, a in zip(names, (x, *constants), strict=True)
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {n: a.astype(np.float32) for n, a in zip(names, (x, *constants), strict=True)})[0]


@st.composite
def windows(draw):
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    strides = draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    dilations = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    pads = draw(st.tuples(st.integers(0, 2), st.integers(0, 2)))
    return Window(*kernel, *strides, *dilations, *pads, *pads)


def attributes_of(window: Window) -> dict:
    return {
        "kernel_shape": [window.kernel_h, window.kernel_w],
        "strides": [window.stride_h, window.stride_w],
        "dilations": [window.dilation_h, window.dilation_w],
        "pads": [window.pad_top, window.pad_left, window.pad_bottom, window.pad_right],
    }


@given(windows(), st.sampled_from([(1, 4, 6), (2, 4, 6), (4, 4, 8), (4, 4, 4)]), st.integers(0, 1000))
@settings(max_examples=40)
def test_convolution(window, channels, seed):
    groups, inputs, outputs = channels
    random = np.random.default_rng(seed)
    x = random.normal(size=(1, inputs, 9, 10))
    weight = random.normal(size=(outputs, inputs // groups, window.kernel_h, window.kernel_w))
    bias = random.normal(size=outputs)
    expected = in_onnx_runtime("Conv", x, weight, bias, group=groups, **attributes_of(window))
    got = convolution(x, weight, bias, window, groups)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@given(windows(), st.sampled_from([(1, 4, 6), (2, 4, 6), (4, 4, 4)]), st.integers(0, 1000))
@settings(max_examples=40)
def test_transposed_convolution(window, channels, seed):
    groups, inputs, outputs = channels
    random = np.random.default_rng(seed)
    x = random.normal(size=(1, inputs, 5, 6))
    weight = random.normal(size=(inputs, outputs // groups, window.kernel_h, window.kernel_w))
    bias = random.normal(size=outputs)
    sides = [
        (size - 1) * stride - 2 * pad + (kernel - 1) * dilation + 1
        for size, stride, pad, kernel, dilation in (
            (5, window.stride_h, window.pad_top, window.kernel_h, window.dilation_h),
            (6, window.stride_w, window.pad_left, window.kernel_w, window.dilation_w),
        )
    ]
    if min(sides) < 1:
        return
    expected = in_onnx_runtime("ConvTranspose", x, weight, bias, group=groups, **attributes_of(window))
    got = transposed_convolution(x, weight, bias, window, groups, expected.shape[2:])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_bands_of_rows_give_the_same(monkeypatch):
    random = np.random.default_rng(1)
    x, weight = random.normal(size=(1, 3, 20, 20)), random.normal(size=(5, 3, 3, 3))
    window = Window(3, 3, 2, 2, 1, 1, 1, 1, 1, 1)
    whole = convolution(x, weight, None, window, 1)
    monkeypatch.setattr(float64_layers, "_BAND_BYTES", 5000)
    np.testing.assert_allclose(convolution(x, weight, None, window, 1), whole, rtol=1e-13)


@pytest.mark.parametrize(
    ("kind", "op", "slopes"),
    [
        ("relu", "Relu", [0.0]),
        ("leaky", "LeakyRelu", [0.2]),
        ("prelu", "PRelu", [0.1, 0.5, -0.3]),
        ("abs", "Abs", [0.0]),
        ("softplus", "Softplus", [0.0]),
        ("elu", "Elu", [0.7]),
    ],
)
def test_activation(kind, op, slopes):
    x = np.random.default_rng(0).normal(0.0, 3.0, size=(1, 3, 4, 5))
    constants = [np.reshape(slopes, (3, 1, 1))] if op == "PRelu" else []
    attributes = {"alpha": slopes[0]} if op in ("LeakyRelu", "Elu") else {}
    expected = in_onnx_runtime(op, x, *constants, **attributes)
    np.testing.assert_allclose(
        activate(x, InPlaceActivation(kind, np.asarray(slopes))), expected, rtol=1e-5, atol=1e-6
    )
