"""Pad one axis as the rows of an image.

Pattern: Pad with a constant, along one axis of a value that is no image or has a batch of several.
Algebra: with the axes before it and those behind it merged, [1, p, n, q], it is the same padding of the third axis.
Declines for paddings along several axes, and for those that crop.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.pad import Pad
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, operand, read
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule
from nnkit.rewrite.rules.merge_pad import read_constant_pad

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    pad: Pad
    axis: int


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Pad") or editor.mark(node) is not None:
        return None
    shape = editor.shape(data_input(node))
    return (node,) if len(shape) != 4 or shape[0] != 1 else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    pad = read(editor, node, read_constant_pad)
    axes = [axis for axis, amounts in enumerate(zip(pad.before, pad.after, strict=True)) if any(amounts)]
    if len(axes) != 1:
        raise Refused("it pads several axes, or none")
    return _Match(node, pad, axes[0])


def _rewrite(editor: Editor, match: _Match) -> None:
    node, pad, axis = match.node, match.pad, match.axis
    name, shape = editor.layer(node), editor.shape(data_input(node))
    merged = (1, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
    source = reshaped(editor, node, data_input(node), merged, f"{name}_input")
    pads = np.array([0, 0, pad.before[axis], 0, 0, 0, pad.after[axis], 0], np.int64)
    inputs = [source, editor.constant(f"{name}.pads", pads), operand(node, 2)]
    after = (*merged[:2], merged[2] + pad.before[axis] + pad.after[axis], merged[3])
    compute_then_reshape(editor, node, "Pad", inputs, {}, shape=after, label="padded")


RULE = Rule("pad_inside", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
