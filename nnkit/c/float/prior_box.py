"""PriorBox of `ai.nnkit`: its boxes follow from shapes alone, and are worked out when the code is generated."""

from __future__ import annotations

from nnkit.c.float.calls import Code, Known
from nnkit.custom_ops import PriorBox
from nnkit.graph.view import GraphView, Node


def prior_box(graph: GraphView, node: Node, op: PriorBox) -> Code:
    return Known(op.boxes(graph.shape(node.inputs[0]), graph.shape(node.inputs[1])))
