"""Operators of `ai.nnkit` as the Caffe layers that they come from."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnkit.caffe.export.context import NodeContext
from nnkit.custom_ops import CustomOp, op_with
from nnkit.errors import ModelError

_FIELDS = {
    "PSROIPooling": "psroi_pooling_param",
    "PassThrough": "passthrough_param",
    "PriorBox": "prior_box_param",
    "Proposal": "proposal_param",
    "ROIPooling": "roi_pooling_param",
    "Reorg": "reorg_param",
    "WarpPerspective": "warp_perspective_param",
}


def _op(context: NodeContext) -> CustomOp:
    try:
        node = context.node
        return op_with(node.op_type, node.attributes, len(node.inputs), len(node.outputs), node.name)
    except ModelError as error:
        context.fail(error.reason, error.remedy)


def same_fields(context: NodeContext) -> None:
    """Layers whose parameters are called as the operator's attributes; 0 and empty stand for "not given"."""
    op = _op(context)
    defaults = {"reverse": False, "offset": 0.5, "border_value": 0.0}
    flags = ("flip", "clip", "reverse")  # flip and clip are always written: readers differ in their defaults
    fields: dict[str, Any] = {}
    for key, value in op.attributes().items():
        if key in defaults:
            if value == defaults[key]:
                continue
        elif value in (0, 0.0, []) and key not in flags:
            continue
        fields[key] = bool(value) if key in flags else value
    if op.op_type == "Proposal":
        if op.attributes()["min_size"] != int(op.attributes()["min_size"]):
            context.fail("its min_size is no whole number", "round it")
        fields["min_size"] = int(op.attributes()["min_size"])
    context.result(op.op_type, list(context.node.inputs), **{_FIELDS[op.op_type]: fields})


def normalize(context: NodeContext) -> None:
    """Normalize; a scale of 1 where the operator has none."""
    values = _op(context).attributes()
    shared = bool(values["channel_shared"])
    scale = np.ones(1, np.float32)
    if context.input(1):
        scale = context.weights(1, "scale").reshape(-1)
    elif not shared:
        scale = np.ones(context.image()[0], np.float32)
    fields: dict[str, Any] = {"across_spatial": bool(values["across_spatial"]), "channel_shared": shared}
    if values["eps"] != 1e-10:
        fields["eps"] = values["eps"]
    context.result("Normalize", [context.input(0)], [scale], norm_param=fields)


def detection_output(context: NodeContext) -> None:
    """DetectionOutput."""
    values = _op(context).attributes()
    nms: dict[str, Any] = {"nms_threshold": values["nms_threshold"]}
    if values["top_k"] >= 0:
        nms["top_k"] = values["top_k"]
    if values["eta"] != 1:
        nms["eta"] = values["eta"]
    fields: dict[str, Any] = {
        "num_classes": values["num_classes"],
        "share_location": bool(values["share_location"]),
        "background_label_id": values["background_label_id"],
        "nms_param": nms,
        "code_type": values["code_type"],
        "keep_top_k": values["keep_top_k"],
    }
    if values["variance_encoded_in_target"]:
        fields["variance_encoded_in_target"] = True
    if values["confidence_threshold"] > -3e38:
        fields["confidence_threshold"] = values["confidence_threshold"]
    if values["clip"]:
        fields["clip"] = True
    context.result("DetectionOutput", list(context.node.inputs), detection_output_param=fields)


def custom(context: NodeContext) -> None:
    """Custom, with the shapes of its outputs."""
    bottoms = [value for value in context.node.inputs if value]
    shapes = [{"dim": list(context.value_shape(value))} for value in context.node.outputs]
    context.layer("", "Custom", bottoms, context.node.outputs, custom_param={"shape": shapes})
