"""The operators of ai.nnkit."""

from __future__ import annotations

import numpy as np

from nnkit.cpu_segments.calls import (
    Argument,
    Call,
    Known,
    Lowered,
    Read,
    RefusedError,
    Scratch,
    Struct,
    Table,
    Write,
    copy,
    number,
    strides,
)
from nnkit.cpu_segments.graph import Layer
from nnkit.custom_ops import (
    CustomOp,
    DetectionOutput,
    Normalize,
    PassThrough,
    PriorBox,
    Proposal,
    PSROIPooling,
    Reorg,
    ROIPooling,
    WarpPerspective,
    op_of,
)
from nnkit.errors import ModelError


def custom(layer: Layer) -> Lowered:
    """Any of them. Custom itself is refused: it has no definition."""
    try:
        op = op_of(layer.node)
    except ModelError as error:
        raise RefusedError(error.reason) from error
    match op:
        case PriorBox():
            return Known(op.boxes(layer.shape(0), layer.shape(1)))
        case PassThrough():
            return _pass_through(layer, op)
        case DetectionOutput():
            return _detection_output(layer, op)
        case Proposal():
            return _proposal(layer, op)
    kernel = _KERNELS.get(type(op))
    if kernel is None:
        raise RefusedError(f"{op.op_type} has shapes, but no definition that could be run")
    return [Call(kernel, f"nnkit_{kernel}", _plain(layer, op))]


_KERNELS: dict[type[CustomOp], str] = {
    Normalize: "normalize",
    Reorg: "reorg",
    ROIPooling: "roi_pooling",
    PSROIPooling: "psroi_pooling",
    WarpPerspective: "warp_perspective",
}


def _plain(layer: Layer, op: CustomOp) -> tuple[Argument, ...]:
    _, channels, height, width = layer.shape(0)
    read, write = Read(layer.input(0)), Write(layer.output)
    match op:
        case Normalize():
            scale = Read(layer.input(1)) if layer.has(1) else "0"
            flags = (channels, height * width, int(op.across_spatial), int(op.channel_shared))
            return (read, scale, write, *map(str, flags), number(op.eps))
        case Reorg():
            return (read, write, *map(str, (channels, height, width, op.stride, int(op.reverse))))
        case ROIPooling():
            numbers = (channels, height, width, layer.out_shape[0], op.pooled_h, op.pooled_w)
            return (read, Read(layer.input(1)), write, *map(str, numbers), number(op.spatial_scale))
        case PSROIPooling():
            sizes = (height, width, layer.out_shape[0], op.output_dim, op.group_size)
            return (read, Read(layer.input(1)), write, *map(str, sizes), number(op.spatial_scale))
        case WarpPerspective():
            values = int(np.prod(layer.shape(1)))
            choices = (op.direction == "forward", op.interpolation == "nearest", op.border == "replicate")
            words = map(str, (channels, height, width, *layer.out_shape[2:], values, *map(int, choices)))
            text = f"{{{', '.join(words)}, {number(op.border_value)}}}"
            return (read, Read(layer.input(1)), write, Struct("nnkit_warp", text))
    raise RefusedError(f"{op.op_type} has no kernel")


def _pass_through(layer: Layer, op: PassThrough) -> Lowered:
    _, channels, height, width = layer.shape(0)
    shape = (channels, height // op.block_height, op.block_height, width // op.block_width, op.block_width)
    steps, order = strides(shape), (2, 4, 0, 1, 3)
    sizes = [shape[axis] for axis in order]
    return [copy(Read(layer.input(0)), Write(layer.output), sizes, [steps[axis] for axis in order], strides(sizes))]


def _detection_output(layer: Layer, op: DetectionOutput) -> Lowered:
    priors = layer.shape(2)[2] // 4
    limit = op.per_class_limit(priors)
    rows = layer.out_shape[2]
    # Without keep_top_k nothing is dropped later: the list is the output itself.
    entries = op.keep_top_k + limit if op.keep_top_k > 0 else 0
    listed: Argument = Scratch(entries * 7, "float") if entries else Write(layer.output)
    flags = (op.share_location, op.variance_encoded_in_target, op.clip)
    numbers = (priors, op.num_classes, op.background_label_id, *map(int, flags))
    code = f"NNKIT_BOX_{op.code_type}"
    floats = (number(op.nms_threshold), number(op.eta), number(op.confidence_threshold))
    text = ", ".join([*map(str, numbers), code, *map(str, (limit, op.keep_top_k, rows)), *floats])
    arguments: tuple[Argument, ...] = (
        *(Read(layer.input(index)) for index in range(3)),
        Write(layer.output),
        Scratch(max(priors, entries), "int"),
        listed,
        Struct("nnkit_detection", f"{{{text}}}"),
    )
    return [
        Call("detection_output", "nnkit_detection_output", arguments),
    ]


def _proposal(layer: Layer, op: Proposal) -> Lowered:
    _, _, height, width = layer.shape(0)
    total = op.anchor_count * height * width
    numbers = (op.anchor_count, height, width, op.feat_stride, op.pre_nms_topn, op.post_nms_topn)
    text = f"{{{', '.join(map(str, numbers))}, {number(op.nms_thresh)}, {number(op.min_size)}}}"
    arguments: tuple[Argument, ...] = (
        *(Read(layer.input(index)) for index in range(3)),
        Write(layer.output),
        Table(op.anchors().reshape(-1)),
        Scratch(total, "int"),
        Scratch(total * 5, "float"),
        Struct("nnkit_proposal", text),
    )
    return [Call("proposal", "nnkit_proposal_run", arguments)]
