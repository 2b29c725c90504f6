"""Conv over one or two dimensions: kernels for constant weights, and one for those that are computed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnkit.c.float.calls import Call, Code, Table, Write
from nnkit.c.float.operands import read, read_or_null
from nnkit.c.float.overlap import conv_accesses, pool_accesses
from nnkit.c.float.packed import LANES, UNBOUNDED, depthwise_weights, packed_call
from nnkit.c.float.window import window_struct
from nnkit.graph.read.window import read_window
from nnkit.graph.view import GraphView, Node


def conv(graph: GraphView, node: Node) -> Code:
    window, groups = read_window(graph, node, one_row=True), node.integer("group", 1)
    channels, maps = graph.shape(node.inputs[0])[1], graph.shape(node.output)[1]
    shape = window_struct(graph, node, window, groups)
    source = read(graph, node.inputs[0])
    weights, bias = _constants(graph, node)
    if weights is None:
        operands = read(graph, node.inputs[1]), read_or_null(graph, node, 2)
        accesses = conv_accesses(window, channels, maps, groups)
        computed = (source, *operands, Write(node.output), shape)
        return [Call("conv", "nnkit_conv", computed, accesses=accesses)]
    if groups == channels == maps:
        table = Table(depthwise_weights(weights, bias))
        arguments = (source, table, Write(node.output), shape, UNBOUNDED)
        accesses = pool_accesses(window, channels)
        return [Call("conv_depthwise", "nnkit_conv_depthwise", arguments, accesses=accesses, clip=4)]
    by_group = weights.reshape(groups, maps // groups, channels // groups, *window.kernel)
    return [
        packed_call(source, node.output, by_group, bias, shape).over_input(
            conv_accesses(window, channels, maps, groups)
        )
    ]


def takes_clip(graph: GraphView, node: Node) -> bool:
    """Whether its kernel brings results between two bounds."""
    return _constants(graph, node)[0] is not None


def _constants(graph: GraphView, node: Node) -> tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """Weights and bias, where both are constant and padding to LANES maps a group does not more than double them."""
    weights, bias = graph.constant(node.inputs[1]), graph.constant(node.input(2)) if node.input(2) else None
    if weights is None or (bias is None and node.input(2)):
        return None, None
    maps, groups = weights.shape[0], node.integer("group", 1)
    depthwise = groups == maps == graph.shape(node.inputs[0])[1]
    if groups > 1 and not depthwise and maps // groups * 2 < LANES:
        return None, None
    return weights, bias


LOWERINGS = {"Conv": conv}
