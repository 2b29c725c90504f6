"""Conv over one or two dimensions; weights may be computed."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read, read_or_null
from nnkit.c.float.overlap import conv_distance_bytes
from nnkit.c.float.window import window_struct
from nnkit.graph.read.window import read_window
from nnkit.graph.view import GraphView, Node


def conv(graph: GraphView, node: Node) -> Code:
    window, groups = read_window(graph, node, one_row=True), node.integer("group", 1)
    source, weights = (read(graph, name) for name in node.inputs[:2])
    bias = read_or_null(graph, node, 2)
    arguments = (source, weights, bias, Write(node.output), window_struct(graph, node, window, groups))
    channels, out_channels = graph.shape(node.inputs[0])[1], graph.shape(node.output)[1]
    distance = conv_distance_bytes(window, channels, out_channels, groups)
    return [Call("conv", "nnkit_conv", arguments, distance_bytes=distance)]


LOWERINGS = {"Conv": conv}
