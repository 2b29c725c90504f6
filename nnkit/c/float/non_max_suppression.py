"""FixedNonMaxSuppression of `ai.nnkit`: which boxes stay, class by class."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Scratch, Write
from nnkit.c.float.operands import read
from nnkit.custom_ops import FixedNonMaxSuppression
from nnkit.graph.view import GraphView, Node


def non_max_suppression(graph: GraphView, node: Node, op: FixedNonMaxSuppression) -> Code:
    boxes, scores = (read(graph, name) for name in node.inputs)
    _, classes, count = graph.shape(scores.value)
    arguments = (
        boxes,
        scores,
        Write(node.output),
        Scratch(count, "int"),
        count,
        classes,
        op.most(count),
        op.center_point_box,
        float(op.iou_threshold),
        float(op.score_threshold),
    )
    return [Call("non_max_suppression", "nnkit_non_max_suppression", arguments, uses=("select_best",))]
