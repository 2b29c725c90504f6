"""Write pixels of blocks that become channels as a convolution.

Pattern: Reshape of [N, C, H, W], Transpose, Reshape to [N, C b b, H/b, W/b], as PixelUnshuffle is exported;
SpaceToDepth.
Algebra: where channel o of the result is pixel (i, j) of each block of channel c, it is a b x b convolution with
  stride b whose weights are 1 at (o, c, i, j) and 0 elsewhere.
Why: hardware that turns no axes otherwise hands the map to the CPU and takes it back.
Declines where values move otherwise, where something else reads the values between, and for more than 2,048 channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.depth_to_space import read_depth_to_space
from nnkit.graph.read.transpose import read_transpose
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_MOST_CHANNELS = 2048


@dataclass(frozen=True, eq=False)
class _Match:
    """weight: [C b b, C, b, b] of ones and zeros."""

    nodes: Nodes
    weight: NDArray[np.float32]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if is_op(node, "SpaceToDepth"):
        return (node,)
    turn = editor.producer(data_input(node), "Transpose") if is_op(node, "Reshape") else None
    split = None if turn is None else editor.producer(data_input(turn), "Reshape")
    if turn is None or split is None:
        return None
    before, after = editor.shape(data_input(split)), editor.shape(node.outputs[0])
    return (split, turn, node) if len(before) == len(after) == 4 and _block(before, after) > 1 else None


def _block(before: tuple[int, ...], after: tuple[int, ...]) -> int:
    """b, where the shapes are of [N, C, H, W] and [N, C b b, H/b, W/b]; 0 for others."""
    block = before[2] // after[2] if after[2] else 0
    wanted = (before[0], before[1] * block * block, after[2] * block, after[3] * block)
    return block if (after[0], after[1], before[2], before[3]) == wanted else 0


def _check(editor: Editor, nodes: Nodes) -> _Match:
    first, last = nodes[0], nodes[-1]
    for node, reader in pairwise(nodes):
        editor.require_only_reader(node.outputs[0], reader)
    before, after = editor.shape(data_input(first)), editor.shape(last.outputs[0])
    if after[1] > _MOST_CHANNELS:
        raise Refused(f"it has {after[1]:,} channels")
    if len(nodes) == 1:
        blocks = read(editor, first, read_depth_to_space)
        parted, order = blocks.parted, blocks.order
    else:
        parted, order = editor.shape(first.outputs[0]), read(editor, nodes[1], read_transpose).order
    block = _block(before, after)
    places = np.arange(prod(before)).reshape(parted).transpose(order).reshape(after)
    # Where a channel's first pixel stands says which pixel of every block it is.
    channel, row, column = np.unravel_index(places[0, :, 0, 0], before[1:])
    pixels = np.arange(prod(before)).reshape(before[0], before[1], after[2], block, after[3], block)
    if max(row.max(), column.max()) >= block or not np.array_equal(
        places, pixels.transpose(0, 1, 3, 5, 2, 4)[:, channel, row, column]
    ):
        raise Refused("its channels are not pixels of blocks")
    weight = np.zeros((after[1], before[1], block, block), np.float32)
    weight[np.arange(after[1]), channel, row, column] = 1.0
    return _Match(nodes, weight)


def _rewrite(editor: Editor, match: _Match) -> None:
    *before, last = match.nodes
    block = match.weight.shape[-1]
    inputs = [data_input(match.nodes[0]), editor.constant(f"{editor.layer(last)}.weight", match.weight)]
    for node in before:
        editor.move_tags(node, last.outputs[0])
    editor.become(last, "Conv", inputs, {"kernel_shape": [block] * 2, "strides": [block] * 2, "pads": [0] * 4})
    editor.remove(*reversed(before))


RULE = Rule("unshuffle_to_conv", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
