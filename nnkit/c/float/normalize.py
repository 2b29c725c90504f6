"""Normalize of `ai.nnkit`: each position, or the whole map, scaled to unit length."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read, read_or_null
from nnkit.custom_ops import Normalize
from nnkit.graph.view import GraphView, Node


def normalize(graph: GraphView, node: Node, op: Normalize) -> Code:
    source, scale = read(graph, node.inputs[0]), read_or_null(graph, node, 1)
    _, channels, height, width = graph.shape(source.value)
    flags = (op.across_spatial, op.channel_shared)
    arguments = (source, scale, Write(node.output), channels, height * width, *flags, op.eps)
    return [Call("normalize", "nnkit_normalize", arguments)]
