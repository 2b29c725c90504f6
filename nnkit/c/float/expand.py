"""Expand: a copy that stands still along the repeated dimensions of the input."""

from __future__ import annotations

from nnkit.c.float.calls import Code, Write, copy
from nnkit.c.float.operands import broadcast_strides, read, strides
from nnkit.graph.view import GraphView, Node


def expand(graph: GraphView, node: Node) -> Code:
    source, shape = read(graph, node.inputs[0]), graph.shape(node.output)
    steps = broadcast_strides(graph.shape(source.value), shape)
    return [copy(source, Write(node.output), shape, steps, strides(shape))]


LOWERINGS = {"Expand": expand}
