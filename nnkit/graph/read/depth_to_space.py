"""DepthToSpace and SpaceToDepth: channels to pixels of blocks and back."""

from __future__ import annotations

from dataclasses import dataclass

from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph


@dataclass(frozen=True)
class Blocks:
    """The data in the shape `parted`, of six dimensions, then with its axes in this order, is the result."""

    data: str
    parted: tuple[int, ...]
    order: tuple[int, ...]


def read_depth_to_space(graph: ReadableGraph, node: Node) -> Blocks:
    """Read a DepthToSpace (DCR or CRD) or a SpaceToDepth with blocks of b x b.

    With c channels on the deep side, DCR is [N, b, b, c, H, W] turned to [N, c, H, b, W, b]; CRD the same from
    [N, c, b, b, H, W]; SpaceToDepth [N, C, H/b, b, W/b, b] turned to [N, b, b, C, H/b, W/b].

    Raises Refused where a shape is not known, or not a multiple of the block.
    """
    data, block = node.inputs[0], node.integer("blocksize", 1)
    images, channels, height, width = graph.shape(data)
    if node.is_op("SpaceToDepth"):
        if height % block or width % block:
            raise Refused(f"its map of {height} x {width} is no multiple of its block of {block} x {block}")
        return Blocks(data, (images, channels, height // block, block, width // block, block), (0, 3, 5, 1, 2, 4))
    if channels % block**2:
        raise Refused(f"its {channels} channels are no multiple of its block of {block} x {block}")
    deep = channels // block**2
    if node.text("mode", "DCR") == "DCR":
        return Blocks(data, (images, block, block, deep, height, width), (0, 3, 4, 1, 5, 2))
    return Blocks(data, (images, deep, block, block, height, width), (0, 1, 4, 2, 5, 3))
