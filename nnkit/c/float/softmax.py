"""Softmax and its logarithm along one axis."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import around_axis, read
from nnkit.graph.read.axis import read_axis
from nnkit.graph.view import GraphView, Node


def softmax(graph: GraphView, node: Node) -> Code:
    source = read(graph, node.inputs[0])
    sizes = around_axis(graph.shape(source.value), read_axis(graph, node))
    function = "nnkit_softmax" if node.is_op("Softmax") else "nnkit_log_softmax"
    return [Call("softmax", function, (source, Write(node.output), *sizes), in_place=(0,))]


LOWERINGS = {"Softmax": softmax, "LogSoftmax": softmax}
