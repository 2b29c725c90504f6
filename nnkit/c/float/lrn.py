"""LRN: normalisation by the squares of neighbouring channels."""

from __future__ import annotations

from math import prod

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read
from nnkit.graph.read.lrn import read_lrn
from nnkit.graph.view import GraphView, Node


def lrn(graph: GraphView, node: Node) -> Code:
    norm = read_lrn(graph, node)
    shape = graph.shape(norm.data)
    sizes = (shape[1], prod(shape[2:]), norm.size)
    numbers = (norm.alpha, norm.beta, norm.bias)
    return [Call("lrn", "nnkit_lrn", (read(graph, norm.data), Write(node.output), *sizes, *numbers))]


LOWERINGS = {"LRN": lrn}
