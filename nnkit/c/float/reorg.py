"""Reorg of `ai.nnkit`: Darknet's reorganisation, with its own order of values."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read
from nnkit.custom_ops import Reorg
from nnkit.graph.view import GraphView, Node


def reorg(graph: GraphView, node: Node, op: Reorg) -> Code:
    source = read(graph, node.inputs[0])
    sizes = graph.shape(source.value)[1:]
    return [Call("reorg", "nnkit_reorg", (source, Write(node.output), *sizes, op.stride, op.reverse))]
