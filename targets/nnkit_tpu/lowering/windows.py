"""Convolutions, matrix products and pools."""

from __future__ import annotations

import numpy as np

from nnkit.graph.read.conv import read_conv
from nnkit.graph.read.conv_transpose import read_conv_transpose
from nnkit.graph.read.fully_connected import read_fully_connected
from nnkit.graph.read.matmul import read_matmul
from nnkit.graph.read.pool import read_pool
from nnkit.graph.view import GraphView, Node
from nnkit.program import Window
from nnkit_tpu.constraints import (
    counted_padding_is_stated,
    gemm_is_not_transposed,
    maximum_is_not_dilated,
    product_is_of_matrices,
    require,
)
from nnkit_tpu.lowering.broadcast import broadcast_product
from nnkit_tpu.lowering.reading import Built, fields, float32, window
from nnkit_tpu.program import TpuConv, TpuDeconv, TpuMatMul, TpuOp, TpuPool


def conv(graph: GraphView, node: Node) -> TpuOp:
    """Conv with constant weights."""
    layer = read_conv(graph, node)
    return TpuConv(
        **fields(graph, node, layer.data),
        weight=float32(layer.weight),
        bias=None if layer.bias is None else float32(layer.bias),
        window=window(layer.window),
        group=layer.groups,
    )


def conv_transpose(graph: GraphView, node: Node) -> TpuOp:
    """ConvTranspose with constant weights; ONNX has them as [I, O/group, kh, kw]."""
    layer = read_conv_transpose(graph, node)
    per_group = layer.weight.reshape(layer.groups, -1, *layer.weight.shape[1:])
    by_output = np.swapaxes(per_group, 1, 2).reshape(layer.output_channels, -1, *layer.kernel)
    return TpuDeconv(
        **fields(graph, node, layer.data),
        weight=float32(by_output),
        bias=None if layer.bias is None else float32(layer.bias),
        window=Window(*layer.kernel, *layer.strides, *layer.dilations, *layer.pads),
        output_padding=layer.output_padding,
        group=layer.groups,
    )


def gemm(graph: GraphView, node: Node) -> TpuOp:
    """Gemm: alpha * A x B + beta * C with constant B and C."""
    layer = read_fully_connected(graph, node)
    require(gemm_is_not_transposed, layer)
    bias = layer.bias(np.float32)
    return TpuMatMul(
        **fields(graph, node, layer.data),
        weight=float32(layer.weight(np.float32).T),
        bias=None if bias is None else float32(bias),
    )


def matmul(graph: GraphView, node: Node) -> Built:
    """MatMul with a constant or a computed right side."""
    require(product_is_of_matrices, graph.shape(node.inputs[0]))
    if graph.constant(node.inputs[1]) is not None:
        layer = read_fully_connected(graph, node)
        return Built((TpuMatMul(**fields(graph, node, layer.data), weight=float32(layer.weight(np.float32).T)),))
    product = read_matmul(graph, node)
    if product.left_outer != product.right_outer:
        return broadcast_product(graph, node, product)
    return Built((TpuMatMul(**fields(graph, node, product.left, product.right), weight=None),))


def pool(graph: GraphView, node: Node) -> TpuOp:
    """Maximum and average pools, global ones too."""
    layer = read_pool(graph, node)
    require(maximum_is_not_dilated, layer)
    require(counted_padding_is_stated, layer)
    return TpuPool(
        **fields(graph, node, layer.data),
        function=layer.kind,
        window=window(layer.window),
        count_include_pad=layer.counts_padding,
        ceil_mode=layer.window.ceil_mode,
    )
