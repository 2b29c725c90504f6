"""Detection layers, regions of interest, the warp and Custom: all of them operators of `ai.nnkit`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnkit.caffe.layers.context import LayerContext
from nnkit.caffe.network import MAX_DIMENSIONS, MAX_VALUES
from nnkit.custom_ops import Custom, DetectionOutput, PriorBox, Proposal, PSROIPooling, ROIPooling, WarpPerspective

_MAX_BOXES = 1 << 24


def prior_box(context: LayerContext) -> None:
    """SSD's default boxes."""
    context.counts(2)
    parameter = context.parameter("prior_box_param")
    op = PriorBox(
        min_size=_floats(parameter.min_size),
        max_size=_floats(parameter.max_size),
        aspect_ratio=_floats(parameter.aspect_ratio),
        flip=parameter.flip,
        clip=parameter.clip,
        variance=_floats(parameter.variance),
        img_size=parameter.img_size,
        img_h=parameter.img_h,
        img_w=parameter.img_w,
        step=_float(parameter.step),
        step_h=_float(parameter.step_h),
        step_w=_float(parameter.step_w),
        offset=_float(parameter.offset),
    )
    context.custom(op, context.bottoms)


def detection_output(context: LayerContext) -> None:
    """SSD's decoding and non-maximum suppression."""
    from nnkit.caffe.schema import messages

    context.counts(3)
    parameter = context.parameter("detection_output_param")
    nms = parameter.nms_param
    given: dict[str, Any] = {}
    if parameter.HasField("confidence_threshold"):
        given["confidence_threshold"] = _float(parameter.confidence_threshold)
    if nms.HasField("top_k"):
        given["top_k"] = nms.top_k
    if not 0 < parameter.num_classes < _MAX_BOXES:
        context.fail(f"its num_classes is {parameter.num_classes}", "write num_classes")
    op = DetectionOutput(
        num_classes=parameter.num_classes,
        share_location=parameter.share_location,
        background_label_id=parameter.background_label_id,
        nms_threshold=_float(nms.nms_threshold),
        eta=_float(nms.eta),
        code_type=messages.PriorBoxParameter.CodeType.Name(parameter.code_type),
        variance_encoded_in_target=parameter.variance_encoded_in_target,
        keep_top_k=parameter.keep_top_k,
        clip=parameter.clip,
        **given,
    )
    context.custom(op, context.bottoms)


def proposal(context: LayerContext) -> None:
    """Faster R-CNN's region proposals: scores, box deltas and image size to [post_nms_topn, 5]."""
    context.counts(3)
    parameter = context.parameter("proposal_param")
    given: dict[str, Any] = {}
    if parameter.ratio:
        given["ratio"] = _floats(parameter.ratio)
    if parameter.scale:
        given["scale"] = _floats(parameter.scale)
    op = Proposal(
        base_size=parameter.base_size,
        feat_stride=parameter.feat_stride,
        pre_nms_topn=parameter.pre_nms_topn,
        post_nms_topn=parameter.post_nms_topn,
        nms_thresh=_float(parameter.nms_thresh),
        min_size=float(parameter.min_size),
        **given,
    )
    context.custom(op, context.bottoms)


def roi_pooling(context: LayerContext) -> None:
    """The maximum of each bin of each region."""
    context.counts(2)
    parameter = context.parameter("roi_pooling_param")
    op = ROIPooling(parameter.pooled_h, parameter.pooled_w, _float(parameter.spatial_scale))
    context.custom(op, context.bottoms)


def psroi_pooling(context: LayerContext) -> None:
    """R-FCN's position-sensitive average of each bin of each region."""
    context.counts(2)
    parameter = context.parameter("psroi_pooling_param")
    scale = _float(parameter.spatial_scale) if parameter.HasField("spatial_scale") else 1.0
    context.custom(PSROIPooling(parameter.output_dim, parameter.group_size, scale), context.bottoms)


def warp_perspective(context: LayerContext) -> None:
    """The warp between a spatial transformer and the network behind it."""
    context.counts(2)
    parameter = context.parameter("warp_perspective_param")
    op = WarpPerspective(
        direction=parameter.direction,
        interpolation=parameter.interpolation,
        border=parameter.border,
        border_value=_float(parameter.border_value),
        out_h=parameter.out_h,
        out_w=parameter.out_w,
    )
    context.custom(op, context.bottoms)


def custom(context: LayerContext) -> None:
    """A Custom layer: custom_param states the shapes of its tops; what it computes is not known."""
    context.counts((1, MAX_VALUES), (1, MAX_VALUES))
    shapes = [tuple(shape.dim[: MAX_DIMENSIONS + 1]) for shape in context.parameter("custom_param").shape]
    if len(shapes) != len(context.layer.tops):
        context.fail(
            f"it has {len(context.layer.tops)} tops and {len(shapes)} shapes",
            "write `custom_param { shape { dim: 1 ... } }`, one shape for each top",
        )
    if any(not shape or min(shape) < 1 or max(shape) > MAX_VALUES for shape in shapes):
        context.fail("a shape in custom_param is empty or has a dimension below 1", "correct custom_param")
    context.custom(Custom.of(shapes, context.layer.type), context.bottoms)


def _float(value: float) -> float:
    """A float32 field as the shortest decimal that is it: 0.1 rather than 0.10000000149."""
    return float(str(np.float32(value)))


def _floats(values: list[float]) -> tuple[float, ...]:
    return tuple(_float(value) for value in values)
