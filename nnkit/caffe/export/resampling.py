"""Resize as Upsample or Interp."""

from __future__ import annotations

import math

from nnkit.caffe.export.context import NodeContext


def resize(context: NodeContext) -> None:
    """Nearest neighbour by whole factors is Upsample, bilinear with aligned corners is Interp; no other."""
    _, height, width = context.image()
    out = context.result_shape
    if out[:2] != context.shape()[:2]:
        context.fail("it scales the batch or the channels", "only height and width can be scaled")
    mode = context.attribute("mode", "nearest")
    coordinates = context.attribute("coordinate_transformation_mode", "half_pixel")
    if mode == "linear":
        if coordinates != "align_corners":
            context.fail(
                f"it is bilinear with coordinates {coordinates}",
                "Caffe's Interp aligns corners: train it so, or use nearest",
            )
        context.result("Interp", [context.input(0)], interp_param={"height": out[2], "width": out[3]})
        return
    if mode != "nearest":
        context.fail(f"its mode is {mode}", "use nearest, or linear with align_corners")
    if out[2] % height or out[3] % width:
        context.fail(f"{height}x{width} to {out[2]}x{out[3]} is no whole factor", "use whole factors")
    rounding = context.attribute("nearest_mode", "round_prefer_floor")
    for side, size in ((height, out[2]), (width, out[3])):
        factor = size // side
        if any(_source(i, side, size, coordinates, rounding) != i // factor for i in range(size)):
            context.fail(
                f"it takes other neighbours than Upsample ({coordinates}, {rounding})",
                "use coordinate_transformation_mode asymmetric with nearest_mode floor",
            )
    scale_h, scale_w = out[2] // height, out[3] // width
    fields = {"scale": scale_h} if scale_h == scale_w else {"scale_h": scale_h, "scale_w": scale_w}
    context.result("Upsample", [context.input(0)], upsample_param=fields)


def _source(index: int, side: int, size: int, coordinates: str, rounding: str) -> int:
    """The row that ONNX's nearest neighbour takes for row `index`; -1 for coordinates that it does not know."""
    scale = size / side
    if coordinates in ("half_pixel", "half_pixel_symmetric"):
        x = (index + 0.5) / scale - 0.5
    elif coordinates == "pytorch_half_pixel":
        x = (index + 0.5) / scale - 0.5 if size > 1 else 0.0
    elif coordinates == "asymmetric":
        x = index / scale
    elif coordinates == "align_corners":
        x = index * (side - 1) / (size - 1) if size > 1 else 0.0
    else:
        return -1
    rounded = {
        "floor": math.floor(x),
        "ceil": math.ceil(x),
        "round_prefer_floor": math.ceil(x - 0.5),
        "round_prefer_ceil": math.floor(x + 0.5),
    }.get(rounding, -1)
    return min(max(rounded, 0), side - 1)
