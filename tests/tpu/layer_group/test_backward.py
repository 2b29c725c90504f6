"""BackwardN and BackwardH against the rows that really change the result, found by changing every input row."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from nnkit.program import Window
from nnkit_tpu.layer_group.backward import Span, backward_h, backward_n
from nnkit_tpu.layer_group.model import GroupOp


def needed_rows(node: onnx.NodeProto, shape: tuple[int, ...], weights: dict[str, Any], rows: Span) -> Span:
    """First to last input row that ONNX Runtime's result depends on, in `rows` of its output."""
    constants = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    base = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    whole = session.run(None, {"x": base})[0][:, :, rows.start : rows.stop]
    changing = []
    for row in range(shape[2]):
        changed = base.copy()
        changed[:, :, row] += 100.0
        if not np.array_equal(session.run(None, {"x": changed})[0][:, :, rows.start : rows.stop], whole):
            changing.append(row)
    return Span(changing[0], changing[-1] + 1)


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "pad"), [(3, 1, 1, 1), (3, 2, 1, 1), (5, 2, 1, 2), (3, 1, 3, 3), (1, 2, 1, 0)]
)
def test_convolution(kernel: int, stride: int, dilation: int, pad: int) -> None:
    window = Window(kernel, kernel, stride, stride, dilation, dilation, pad, pad, pad, pad)
    shape = (1, 2, 23, 9)
    out_h, out_w = window.output_hw(23, 9)
    op = GroupOp("c", "conv", ("x",), "y", window=window)
    node = helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        kernel_shape=[kernel] * 2,
        strides=[stride] * 2,
        dilations=[dilation] * 2,
        pads=[pad] * 4,
    )
    weight = np.random.default_rng(1).normal(size=(3, 2, kernel, kernel)).astype(np.float32)
    for rows in (Span(0, 3), Span(2, 5), Span(out_h - 3, out_h)):
        result = backward_h(op, rows, shape, (1, 3, out_h, out_w))
        assert result is not None
        assert result == needed_rows(node, shape, {"w": weight}, rows)


@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (4, 2, 1), (3, 1, 1)])
def test_transposed_convolution(kernel: int, stride: int, pad: int) -> None:
    shape, out_h = (1, 2, 9, 5), (9 - 1) * stride - 2 * pad + kernel
    window = Window(kernel, kernel, stride, stride, 1, 1, pad, pad, pad, pad)
    op = GroupOp("d", "deconv", ("x",), "y", window=window)
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4
    )
    weight = np.random.default_rng(1).normal(size=(2, 3, kernel, kernel)).astype(np.float32)
    for rows in (Span(0, 2), Span(3, 7), Span(out_h - 2, out_h)):
        result = backward_h(op, rows, shape, (1, 3, out_h, 0))
        assert result == needed_rows(node, shape, {"w": weight}, rows)


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
def test_linear_resize_needs_what_is_read(coordinates: str) -> None:
    shape = (1, 1, 8, 4)
    op = GroupOp("r", "interp", ("x",), "y", function=f"linear {coordinates}", scale=(3.0, 1.0))
    node = helper.make_node(
        "Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode=coordinates
    )
    scales = np.array([1, 1, 3, 1], np.float32)
    for rows in (Span(0, 4), Span(7, 13), Span(20, 24)):
        result = backward_h(op, rows, shape, (1, 1, 24, 4))
        assert result is not None
        assert result.hull(needed_rows(node, shape, {"s": scales}, rows)) == result


def test_upsampling_and_padding() -> None:
    up = GroupOp("u", "upsample", ("x",), "y", scale=(2.0, 2.0))
    assert backward_h(up, Span(3, 8), (1, 1, 10, 4), (1, 1, 20, 8)) == Span(1, 4)
    pad = GroupOp("p", "pad", ("x",), "y", begins=(2, 0))
    assert backward_h(pad, Span(0, 6), (1, 1, 10, 4), (1, 1, 14, 4)) == Span(0, 4)
    assert backward_h(pad, Span(8, 14), (1, 1, 10, 4), (1, 1, 14, 4)) == Span(6, 10)
    mirrored = GroupOp("p", "pad", ("x",), "y", begins=(2, 0), function="reflect")
    assert backward_h(mirrored, Span(0, 6), (1, 1, 10, 4), (1, 1, 14, 4)) is None


def test_broadcast_and_whole() -> None:
    scale = GroupOp("m", "binary", ("x", "s"), "y", function="mul")
    assert backward_h(scale, Span(4, 8), (1, 8, 1, 1), (1, 8, 16, 16)) == Span(0, 1)
    product = GroupOp("f", "matmul", ("x",), "y")
    assert backward_h(product, Span(0, 2), (1, 8, 4, 4), (1, 8, 4, 4)) is None
    assert backward_h(product, Span(0, 4), (1, 8, 4, 4), (1, 8, 4, 4)) == Span(0, 4)


def test_global_pool_cannot_be_cut_but_reads_everything() -> None:
    pool = GroupOp("g", "average_pool", ("x",), "y", window=Window(7, 7))
    assert backward_h(pool, Span(0, 1), (1, 8, 7, 7), (1, 8, 1, 1)) == Span(0, 7)


def test_batches() -> None:
    conv = GroupOp("c", "conv", ("x",), "y", window=Window(1, 1))
    assert backward_n(conv, Span(1, 3), (4, 2, 8, 8), (4, 2, 8, 8)) == Span(1, 3)
    swap = GroupOp("t", "permute", ("x",), "y", order=(1, 0, 2, 3))
    assert backward_n(swap, Span(1, 3), (4, 4, 8, 8), (4, 4, 8, 8)) is None
    folded = GroupOp("r", "reshape", ("x",), "y")
    assert backward_n(folded, Span(0, 1), (4, 2, 8, 8), (2, 4, 8, 8)) is None
