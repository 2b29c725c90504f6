"""DetectionOutput of `ai.nnkit`: the detections of an SSD; see docs/cpu_segments.md for its memory."""

from __future__ import annotations

from nnkit.c.float.calls import Argument, Call, Code, Scratch, Write, struct
from nnkit.c.float.operands import read
from nnkit.custom_ops import DetectionOutput
from nnkit.graph.view import GraphView, Node


def detection_output(graph: GraphView, node: Node, op: DetectionOutput) -> Code:
    location, confidence, boxes = (read(graph, name) for name in node.inputs)
    target = Write(node.output)
    priors = graph.shape(boxes.value)[2] // 4
    limit = op.per_class_limit(priors)
    # Without keep_top_k nothing is dropped later: the list is the output itself.
    entries = op.keep_top_k + min(op.keep_top_k, limit) if op.keep_top_k > 0 else 0
    listed: Argument = Scratch(entries * 7, "float") if entries else target
    detection = struct(
        "nnkit_detection",
        priors,
        op.num_classes,
        op.background_label_id,
        op.share_location,
        op.variance_encoded_in_target,
        op.clip,
        f"NNKIT_BOX_{op.code_type}",
        limit,
        op.keep_top_k,
        graph.shape(node.output)[2],
        op.nms_threshold,
        op.eta,
        op.confidence_threshold,
    )
    order = Scratch(max(limit, entries), "int")
    arguments = (location, confidence, boxes, target, order, listed, detection)
    return [Call("detection_output", "nnkit_detection_output", arguments, uses=("select_best",))]
