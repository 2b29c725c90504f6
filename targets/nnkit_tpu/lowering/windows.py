"""Convolutions, matrix products and pools."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnkit.program.ops import Window
from nnkit_tpu.lowering.reading import Node, Unsupported, float32, require_image, window_of
from nnkit_tpu.program import TpuConv, TpuDeconv, TpuMatMul, TpuOp, TpuPool


def conv(node: Node) -> TpuOp:
    """Conv with constant weights."""
    require_image(node.shape())
    weight = node.required_constant(1, "weight")
    bias = node.required_constant(2, "bias") if node.given(2) else None
    return TpuConv(
        **node.fields,
        inputs=(node.computed(),),
        weight=float32(weight),
        bias=None if bias is None else float32(bias),
        window=window_of(node, weight.shape[2:]),
        group=node.integer("group", 1),
    )


def conv_transpose(node: Node) -> TpuOp:
    """ConvTranspose with constant weights; ONNX has them as [I, O/group, kh, kw]."""
    require_image(node.shape())
    weight = node.required_constant(1, "weight")
    bias = node.required_constant(2, "bias") if node.given(2) else None
    group = node.integer("group", 1)
    kernel = weight.shape[2:]
    output_padding = node.node.ints("output_padding", (0, 0))
    strides, dilations = node.node.ints("strides", (1, 1)), node.node.ints("dilations", (1, 1))
    pads = node.node.ints("pads", (0, 0, 0, 0))
    if "output_shape" in node.node.attributes or node.node.text("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Unsupported("its padding must be given as numbers (`pads`), not by output_shape or auto_pad")
    for axis in (0, 1):
        span = (kernel[axis] - 1) * dilations[axis] + 1
        size = (
            (node.shape()[2 + axis] - 1) * strides[axis] + span - pads[axis] - pads[axis + 2] + output_padding[axis]
        )
        if size != node.output_shape[2 + axis]:
            raise Unsupported(f"its output has {node.output_shape[2 + axis]} rows or columns, {size} are computed")
    per_group = weight.reshape(group, weight.shape[0] // group, *weight.shape[1:])
    by_output = np.swapaxes(per_group, 1, 2).reshape(-1, weight.shape[0] // group, *kernel)
    return TpuDeconv(
        **node.fields,
        inputs=(node.computed(),),
        weight=float32(by_output),
        bias=None if bias is None else float32(bias),
        window=window_of(node, kernel, pads=pads),
        output_padding=(output_padding[0], output_padding[1]),
        group=group,
    )


def gemm(node: Node) -> TpuOp:
    """Gemm: alpha * A x B + beta * C with constant B and C."""
    if node.integer("transA", 0):
        raise Unsupported("its left side is transposed")
    weight = node.required_constant(1, "weight") * node.number("alpha", 1.0)
    weight = weight.T if node.integer("transB", 0) else weight
    bias = None
    if node.given(2):
        offset = node.required_constant(2, "bias") * node.number("beta", 1.0)
        if offset.size not in (1, weight.shape[1]):
            raise Unsupported(f"its bias has shape {list(offset.shape)}, [{weight.shape[1]}] is supported")
        bias = float32(np.broadcast_to(offset.reshape(-1), (weight.shape[1],)))
    return TpuMatMul(**node.fields, inputs=(node.computed(),), weight=float32(weight), bias=bias)


def matmul(node: Node) -> TpuOp:
    """MatMul with a constant or a computed right side."""
    weight = node.constant(1)
    if len(node.shape()) < 2:
        raise Unsupported("its left side is a vector")
    if weight is None:
        if len(node.shape(1)) != len(node.shape()) or node.shape(1)[:-2] != node.shape()[:-2]:
            raise Unsupported("its two sides differ in their leading dimensions")
        return TpuMatMul(**node.fields, inputs=(node.computed(), node.computed(1)), weight=None)
    if weight.ndim != 2:
        raise Unsupported(f"its constant right side has {weight.ndim} dimensions, 2 are supported")
    return TpuMatMul(**node.fields, inputs=(node.computed(),), weight=float32(weight))


def max_pool(node: Node) -> TpuOp:
    """MaxPool; the second output (indices) is not available."""
    window = _pool_window(node)
    if (window.dilation_h, window.dilation_w) != (1, 1):
        raise Unsupported("its window is dilated")
    return TpuPool(
        **node.fields,
        inputs=(node.computed(),),
        function="max",
        window=window,
        ceil_mode=bool(node.integer("ceil_mode", 0)),
    )


def average_pool(node: Node) -> TpuOp:
    """AveragePool."""
    window = _pool_window(node)
    counted = bool(node.integer("count_include_pad", 0))
    ceil_mode = bool(node.integer("ceil_mode", 0))
    if ceil_mode and counted and _partial(node, window):
        raise Unsupported("it counts padding and its last window reaches beyond it (ceil_mode)")
    return TpuPool(
        **node.fields,
        inputs=(node.computed(),),
        function="average",
        window=window,
        count_include_pad=counted,
        ceil_mode=ceil_mode,
    )


def global_pool(node: Node) -> TpuOp:
    """GlobalAveragePool and GlobalMaxPool."""
    shape = node.shape()
    require_image(shape)
    return TpuPool(
        **node.fields,
        inputs=(node.computed(),),
        function="max" if node.node.op_type == "GlobalMaxPool" else "average",
        window=Window(kernel_h=shape[2], kernel_w=shape[3]),
    )


def _pool_window(node: Node) -> Window:
    """The window; with ceil_mode the lower and right padding grows so that the sizes come out without rounding up."""
    require_image(node.shape())
    window = window_of(node, node.node.ints("kernel_shape", ()))
    if not node.integer("ceil_mode", 0) or not _partial(node, window):
        return window
    height, width = node.shape()[2:]
    out_h, out_w = node.output_shape[2:]
    needed_h = (out_h - 1) * window.stride_h + (window.kernel_h - 1) * window.dilation_h + 1 - height - window.pad_top
    needed_w = (out_w - 1) * window.stride_w + (window.kernel_w - 1) * window.dilation_w + 1 - width - window.pad_left
    return replace(window, pad_bottom=max(window.pad_bottom, needed_h), pad_right=max(window.pad_right, needed_w))


def _partial(node: Node, window: Window) -> bool:
    """Whether a window reaches beyond the stated padding."""
    return window.output_hw(*node.shape()[2:]) != node.output_shape[2:]
