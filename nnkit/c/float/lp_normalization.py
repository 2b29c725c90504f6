"""LpNormalization along one axis, p 1 or 2."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import around_axis, read
from nnkit.graph.read.axis import read_axis
from nnkit.graph.view import GraphView, Node


def lp_normalization(graph: GraphView, node: Node) -> Code:
    source = read(graph, node.inputs[0])
    sizes = around_axis(graph.shape(source.value), read_axis(graph, node))
    arguments = (source, Write(node.output), *sizes, node.integer("p", 2))
    return [Call("lp_normalization", "nnkit_lp_normalization", arguments)]


LOWERINGS = {"LpNormalization": lp_normalization}
