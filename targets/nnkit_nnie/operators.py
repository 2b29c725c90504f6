"""The operator that does a layer's work: its weights, groups and window, by the readers that all targets share."""

from __future__ import annotations

from typing import TypeAlias

from nnkit.graph.read.conv import Conv, read_conv
from nnkit.graph.read.conv_transpose import ConvTranspose, read_conv_transpose
from nnkit.graph.read.fully_connected import FullyConnected, read_fully_connected
from nnkit.graph.read.pool import POOL_OPS, Pool, read_pool
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView
from nnkit_nnie.layers import Layer

Weighted: TypeAlias = Conv | ConvTranspose | FullyConnected


def read_operator(graph: GraphView, layer: Layer) -> Weighted | Pool | None:
    """What the layer's main node does; None for types that have neither weights nor a window.

    Raises Refused where weights or bias are computed, or the window slides over other than height and width.
    """
    if layer.kind == "Pooling":
        return read_pool(graph, next(node for node in layer.nodes if node.is_op(*POOL_OPS)))  # Caffe's may pad before
    return read_weighted(graph, layer)


def read_weighted(graph: GraphView, layer: Layer) -> Weighted | None:
    """The operator of a layer with weights; None for other types. Raises as `read_operator`."""
    match layer.kind:
        case "Convolution" | "DepthwiseConv":
            return read_conv(graph, layer.main)
        case "Deconvolution":
            return read_conv_transpose(graph, layer.main)
        case "InnerProduct":
            operator = read_fully_connected(graph, layer.main)
            if operator.data_transposed:
                raise Refused("its input is transposed")
            return operator
    return None
