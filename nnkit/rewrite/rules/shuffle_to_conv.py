"""Write an exchange of channels as a 1x1 convolution.

Pattern: Reshape of [N, C, H, W], Transpose, Reshape to [N, C, H, W], as channels are shuffled.
Algebra: where each channel's map stays whole and channel o of the result is channel p(o) of the data, it is a 1x1
  convolution whose weights are 1 at (o, p(o)) and 0 elsewhere.
Why: hardware that turns no axes otherwise hands the map to the CPU and takes it back.
Declines where values move within a map, where something else reads the values between, and for more than 2,048
  channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
    nodes: Nodes
    order: NDArray[np.int64]  # [C]: which channel of the data each channel of the result is


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Reshape"):
        return None
    turn = editor.producer(data_input(node), "Transpose")
    split = None if turn is None else editor.producer(data_input(turn), "Reshape")
    if turn is None or split is None:
        return None
    before, after = editor.shape(data_input(split)), editor.shape(node.outputs[0])
    return (split, turn, node) if len(before) == 4 and before == after and before[1] > 1 else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    split, turn, last = nodes
    editor.require_only_reader(split.outputs[0], turn)
    editor.require_only_reader(turn.outputs[0], last)
    shape = editor.shape(last.outputs[0])
    if shape[1] > _MOST_CHANNELS:
        raise Refused(f"it has {shape[1]:,} channels")
    inside = prod(shape[2:])
    places = np.arange(prod(shape)).reshape(editor.shape(split.outputs[0]))
    moved = places.transpose(read(editor, turn, read_transpose).order).reshape(shape[0], shape[1], inside)
    order = moved[0, :, 0] // inside
    whole = np.arange(prod(shape)).reshape(shape[0], shape[1], inside)[:, order]
    if not np.array_equal(moved, whole):
        raise Refused("values move within a map, or between images")
    return _Match(nodes, order)


def _rewrite(editor: Editor, match: _Match) -> None:
    split, turn, last = match.nodes
    weight = np.eye(len(match.order), dtype=np.float32)[match.order][:, :, None, None]
    inputs = [data_input(split), editor.constant(f"{editor.layer(turn)}.weight", weight)]
    for node in (split, turn):
        editor.move_tags(node, last.outputs[0])
    editor.become(last, "Conv", inputs, {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4})
    editor.remove(turn, split)


RULE = Rule("shuffle_to_conv", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
