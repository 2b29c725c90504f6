"""ROIPooling of `ai.nnkit`: the maxima of each region's bins."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Write
from nnkit.c.float.operands import read
from nnkit.custom_ops import ROIPooling
from nnkit.graph.view import GraphView, Node


def roi_pooling(graph: GraphView, node: Node, op: ROIPooling) -> Code:
    source, rois = (read(graph, name) for name in node.inputs)
    sizes = (*graph.shape(source.value)[1:], graph.shape(node.output)[0], op.pooled_h, op.pooled_w)
    return [Call("roi_pooling", "nnkit_roi_pooling", (source, rois, Write(node.output), *sizes, op.spatial_scale))]
