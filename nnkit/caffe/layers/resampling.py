"""Upsample and Interp: larger and smaller maps. PassThrough and Reorg: positions into channels."""

from __future__ import annotations

from nnkit.caffe.layers.context import LayerContext
from nnkit.custom_ops import PassThrough, Reorg


def upsample(context: LayerContext) -> None:
    """Nearest neighbour, by whole factors."""
    context.counts((1, 2))
    if len(context.bottoms) == 2:
        context.fail(
            "it places values by a mask of pooling indices", "only nearest-neighbour upsampling can be taken"
        )
    parameter = context.parameter("upsample_param")
    channels, height, width = context.image()
    scale_h, scale_w = parameter.scale_h or parameter.scale, parameter.scale_w or parameter.scale
    if parameter.upsample_h or parameter.upsample_w:
        if parameter.upsample_h % height or parameter.upsample_w % width:
            size = f"{parameter.upsample_h}x{parameter.upsample_w}"
            context.fail(f"{size} is no multiple of {height}x{width}", "only whole factors can be taken")
        scale_h, scale_w = parameter.upsample_h // height, parameter.upsample_w // width
    if not scale_h or not scale_w:
        context.fail("it has no scale", "write `upsample_param { scale: 2 }`")
    scales = context.constant("scales", [1.0, 1.0, float(scale_h), float(scale_w)])
    context.builder.constants[scales] = context.builder.constants[scales].astype("float32")
    context.result(
        "Resize",
        [context.bottoms[0], "", scales],
        (context.shape()[0], channels, height * scale_h, width * scale_w),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def interpolate(context: LayerContext) -> None:
    """Bilinear, the corners of input and output aligned."""
    context.counts((1, 2))
    parameter = context.parameter("interp_param")
    channels, height, width = context.image()
    if parameter.pad_beg or parameter.pad_end:
        context.fail("it crops or pads (pad_beg, pad_end)", "put a Crop layer before it")
    shrink = parameter.shrink_factor if parameter.HasField("shrink_factor") else 0
    zoom = parameter.zoom_factor if parameter.HasField("zoom_factor") else 0
    if len(context.bottoms) == 2:
        _, height_out, width_out = context.image(1)
    elif shrink or zoom:
        if min(shrink, zoom) < 0:
            context.fail("its factor is negative", "correct interp_param")
        sides = [(side - 1) // shrink + 1 if shrink else side for side in (height, width)]
        height_out, width_out = (side + (side - 1) * (zoom - 1) if zoom else side for side in sides)
    elif parameter.height > 0 and parameter.width > 0:
        height_out, width_out = parameter.height, parameter.width
    else:
        context.fail("its output size is not given", "write height and width, or zoom_factor or shrink_factor")
    sizes = (context.shape()[0], channels, height_out, width_out)
    context.result(
        "Resize",
        [context.bottoms[0], "", "", context.integers("sizes", sizes)],
        sizes,
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )


def pass_through(context: LayerContext) -> None:
    """Blocks of positions into channels."""
    context.counts(1)
    given = context.layer.parameters.HasField("passthrough_param")
    parameter = context.parameter("passthrough_param" if given else "pass_through_param")
    op = PassThrough(int(parameter.block_height), int(parameter.block_width), int(parameter.num_output))
    context.custom(op, context.bottoms)


def reorg(context: LayerContext) -> None:
    """YOLOv2's reorganisation."""
    context.counts(1)
    parameter = context.parameter("reorg_param")
    op = Reorg(int(parameter.stride) if parameter.HasField("stride") else 2, bool(parameter.reverse))
    context.custom(op, context.bottoms)
