"""Softmax along one axis."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import around_axis, read
from nnkit.graph.read.axis import read_axis
from nnkit.graph.view import GraphView, Node


def softmax(graph: GraphView, node: Node) -> Code:
    source = read(graph, node.inputs[0])
    sizes = around_axis(graph.shape(source.value), read_axis(graph, node))
    return [Call("softmax", "nnkit_softmax", (source, Write(node.output), *sizes), in_place=(0,))]


LOWERINGS = {"Softmax": softmax}
