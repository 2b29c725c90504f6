"""Pooling of any geometry against Caffe's rules written as loops, and the way back from ONNX."""

from __future__ import annotations

import math

import numpy as np
import pytest
from caffe_reference import node, onnx_model
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.caffe_corpus import Case, layer
from nnkit.caffe.export import export_caffe
from nnkit.errors import ModelError
from nnkit.graph import Model
from nnkit.graph.onnx_runtime import FloatSession
from nnkit.importers import caffe_model


def caffe_pool(x: NDArray[np.float32], kernel: int, stride: int, pad: int, method: str) -> list[float] | None:
    """One row, as Caffe's loops have it; None where a window sees no input."""
    side = len(x)
    size = math.ceil((side + 2 * pad - kernel) / stride) + 1
    if pad and (size - 1) * stride >= side + pad:
        size -= 1
    found = []
    for index in range(size):
        start = index * stride - pad
        end = min(start + kernel, side + pad)
        divisor = end - start
        inside = x[max(start, 0) : min(end, side)].astype(np.float64)
        if not len(inside):
            return None
        found.append(float(inside.max() if method == "MAX" else inside.sum() / divisor))
    return found


@settings(max_examples=150)
@given(
    side=st.integers(1, 12),
    kernel=st.integers(1, 6),
    stride=st.integers(1, 6),
    pad=st.integers(0, 4),
    method=st.sampled_from(["MAX", "AVE"]),
)
def test_pooling_is_caffes(side: int, kernel: int, stride: int, pad: int, method: str) -> None:
    assume(pad < kernel <= side + 2 * pad)  # Caffe itself insists on both
    sizes = f"kernel_h: 1 kernel_w: {kernel} stride_h: 1 stride_w: {stride} pad_h: 0 pad_w: {pad}"
    body = layer("Pooling", f"pooling_param {{ pool: {method} {sizes} }}")
    case = Case("pool", body, {"data": (1, 1, 1, side)})
    x = case.feeds(side)["data"]
    expected = caffe_pool(x.ravel(), kernel, stride, pad, method)
    if expected is None:
        with pytest.raises(ModelError, match="would see no input"):
            caffe_model(case.prototxt().encode(), b"")
        return
    model = caffe_model(case.prototxt().encode(), b"").model
    found = FloatSession(model).run({"data": x})["out"].ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    again = caffe_model(export_caffe(model).prototxt.encode(), b"").model
    assert again.onnx_bytes == model.onnx_bytes
    proto = model.proto()
    for entry in proto.graph.node:
        del entry.metadata_props[:]
    bare = Model(proto.SerializeToString(), model.tags, model.inputs, model.outputs, model.opset)
    if proto.graph.node[0].op_type != "Pad":  # the generic rule has to find the same layer from the pool alone
        written = caffe_model(export_caffe(bare).prototxt.encode(), b"").model
        found = FloatSession(written).run({"data": x})["out"].ravel()
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@settings(max_examples=150)
@given(
    side=st.integers(1, 12),
    kernel=st.integers(1, 5),
    stride=st.integers(1, 4),
    begin=st.integers(0, 3),
    end=st.integers(0, 3),
    ceil=st.booleans(),
    counted=st.booleans(),
    op=st.sampled_from(["MaxPool", "AveragePool"]),
)
def test_pools_of_onnx_are_written_exactly_or_refused(
    side: int, kernel: int, stride: int, begin: int, end: int, ceil: bool, counted: bool, op: str
) -> None:
    assume(begin < kernel and end < kernel <= side + begin + end)
    attributes = {
        "kernel_shape": [1, kernel],
        "strides": [1, stride],
        "pads": [0, begin, 0, end],
        "ceil_mode": int(ceil),
    } | ({"count_include_pad": int(counted)} if op == "AveragePool" else {})
    model = onnx_model([node(op, **attributes)], inputs={"x": (1, 1, 1, side)})
    feeds = {"x": np.random.default_rng(side).uniform(-1, 1, (1, 1, 1, side)).astype(np.float32)}
    try:
        files = export_caffe(model)
    except ModelError as error:
        event(error.reason.split("): ")[-1].split(" ")[1])
        return
    expected = FloatSession(model).run(feeds)["y"]
    found = FloatSession(caffe_model(files.prototxt.encode(), b"").model).run(feeds)["y"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
