"""Resize as Upsample or Interp."""

from __future__ import annotations

from nnkit.caffe.export.context import NodeContext
from nnkit.graph.read.resize import read_resize


def resize(context: NodeContext) -> None:
    """Nearest neighbour by whole factors is Upsample, bilinear with aligned corners is Interp; no other."""
    _, height, width = context.image()
    node = context.read(read_resize, "use constant scales or sizes")
    out = node.after
    if out[:2] != node.before[:2]:
        context.fail("it scales the batch or the channels", "only height and width can be scaled")
    if node.mode == "linear":
        if node.coordinates != "align_corners":
            context.fail(
                f"it is bilinear with coordinates {node.coordinates}",
                "Caffe's Interp aligns corners: train it so, or use nearest",
            )
        if node.antialias:
            context.fail("it is antialiased, which Caffe's Interp is not", "train it without, or pool before it")
        context.result("Interp", [node.data], interp_param={"height": out[2], "width": out[3]})
        return
    if node.mode != "nearest":
        context.fail(f"its mode is {node.mode}", "use nearest, or linear with align_corners")
    if node.whole_factors is None:
        context.fail(f"{height}x{width} to {out[2]}x{out[3]} is no whole factor", "use whole factors")
    if not (node.repeats(2) and node.repeats(3)):
        context.fail(
            f"it takes other neighbours than Upsample ({node.coordinates}, {node.rounding})",
            "use coordinate_transformation_mode asymmetric with nearest_mode floor",
        )
    *_, scale_h, scale_w = node.whole_factors
    fields = {"scale": scale_h} if scale_h == scale_w else {"scale_h": scale_h, "scale_w": scale_w}
    context.result("Upsample", [node.data], upsample_param=fields)
