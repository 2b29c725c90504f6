"""WarpPerspective of `ai.nnkit`: a map seen through a matrix."""

from __future__ import annotations

from math import prod

from nnkit.c.float.calls import Call, Code, Write, struct
from nnkit.c.float.operands import read
from nnkit.custom_ops import WarpPerspective
from nnkit.graph.view import GraphView, Node


def warp_perspective(graph: GraphView, node: Node, op: WarpPerspective) -> Code:
    source, matrix = (read(graph, name) for name in node.inputs)
    sizes = (*graph.shape(source.value)[1:], *graph.shape(node.output)[2:], prod(graph.shape(matrix.value)))
    choices = (op.direction == "forward", op.interpolation == "nearest", op.border == "replicate")
    warp = struct("nnkit_warp", *sizes, *choices, op.border_value)
    return [Call("warp_perspective", "nnkit_warp_perspective", (source, matrix, Write(node.output), warp))]
