"""Proposal of `ai.nnkit`: the regions of a Faster R-CNN."""

from __future__ import annotations

from nnkit.c.float.calls import Call, Code, Scratch, Table, Write, struct
from nnkit.c.float.operands import read
from nnkit.custom_ops import Proposal
from nnkit.graph.view import GraphView, Node


def proposal(graph: GraphView, node: Node, op: Proposal) -> Code:
    scores, deltas, info = (read(graph, name) for name in node.inputs)
    height, width = graph.shape(scores.value)[2:]
    total = op.anchor_count * height * width
    sizes = (op.anchor_count, height, width, op.feat_stride, op.pre_nms_topn, op.post_nms_topn)
    parameters = struct("nnkit_proposal", *sizes, op.nms_thresh, op.min_size)
    work = (Table(op.anchors().reshape(-1)), Scratch(total, "int"), Scratch(total * 5, "float"))
    arguments = (scores, deltas, info, Write(node.output), *work, parameters)
    return [Call("proposal", "nnkit_proposal_run", arguments, uses=("select_best",))]
