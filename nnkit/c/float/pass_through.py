"""PassThrough of `ai.nnkit`: blocks of positions become channels, a copy with steps."""

from __future__ import annotations

from nnkit.c.float.calls import Code, Write, copy
from nnkit.c.float.operands import read, strides
from nnkit.custom_ops import PassThrough
from nnkit.graph.view import GraphView, Node


def pass_through(graph: GraphView, node: Node, op: PassThrough) -> Code:
    source = read(graph, node.inputs[0])
    _, channels, height, width = graph.shape(source.value)
    shape = (channels, height // op.block_height, op.block_height, width // op.block_width, op.block_width)
    steps, order = strides(shape), (2, 4, 0, 1, 3)
    sizes = [shape[axis] for axis in order]
    return [copy(source, Write(node.output), sizes, [steps[axis] for axis in order], strides(sizes))]
