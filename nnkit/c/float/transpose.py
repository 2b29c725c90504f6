"""Transpose: a copy with the input's steps in another order."""

from __future__ import annotations

from nnkit.c.float.calls import Code, Write, copy
from nnkit.c.float.operands import read, strides
from nnkit.graph.read.transpose import read_transpose
from nnkit.graph.view import GraphView, Node


def transpose(graph: GraphView, node: Node) -> Code:
    turned = read_transpose(graph, node)
    steps, sizes = strides(graph.shape(turned.data)), graph.shape(node.output)
    order = [steps[axis] for axis in turned.order]
    return [copy(read(graph, turned.data), Write(node.output), sizes, order, strides(sizes))]


LOWERINGS = {"Transpose": transpose}
