"""PSROIPooling of `ai.nnkit`: each bin of a region averages its own channels."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read
from nnkit.custom_ops import PSROIPooling
from nnkit.graph.view import GraphView, Node


def psroi_pooling(graph: GraphView, node: Node, op: PSROIPooling) -> Code:
    source, rois = (read(graph, name) for name in node.inputs)
    _, _, height, width = graph.shape(source.value)
    sizes = (height, width, graph.shape(node.output)[0], op.output_dim, op.group_size)
    arguments = (source, rois, Write(node.output), *sizes, op.spatial_scale)
    return [Call("psroi_pooling", "nnkit_psroi_pooling", arguments)]
