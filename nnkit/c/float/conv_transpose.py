"""ConvTranspose over one or two dimensions; weights may be computed."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read, read_or_null
from nnkit.c.float.window import window_struct
from nnkit.graph.read.conv_transpose import read_transposed_window
from nnkit.graph.view import GraphView, Node


def conv_transpose(graph: GraphView, node: Node) -> Code:
    read_window = read_transposed_window(graph, node, one_row=True)
    window = window_struct(graph, node, read_window, node.integer("group", 1))
    source, weights = (read(graph, name) for name in node.inputs[:2])
    bias = read_or_null(graph, node, 2)
    return [Call("conv_transpose", "nnkit_conv_transpose", (source, weights, bias, Write(node.output), window))]


LOWERINGS = {"ConvTranspose": conv_transpose}
