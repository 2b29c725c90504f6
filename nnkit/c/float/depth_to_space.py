"""DepthToSpace and SpaceToDepth: a copy with the steps of the input's blocks in another order."""

from __future__ import annotations

from nnkit.c.float.calls import Code, Write, copy
from nnkit.c.float.operands import read, strides
from nnkit.graph.read.depth_to_space import read_depth_to_space
from nnkit.graph.view import GraphView, Node


def depth_to_space(graph: GraphView, node: Node) -> Code:
    blocks = read_depth_to_space(graph, node)
    steps = strides(blocks.parted)
    sizes = [blocks.parted[axis] for axis in blocks.order]
    order = [steps[axis] for axis in blocks.order]
    return [copy(read(graph, blocks.data), Write(node.output), sizes, order, strides(sizes))]


LOWERINGS = {"DepthToSpace": depth_to_space, "SpaceToDepth": depth_to_space}
