"""Pad height and width of what lies channels last as those of an image.

Pattern: Pad with a constant of the second and third axis of [1, H, W, C], as transformers pad maps to whole windows.
Algebra: pad(x) = transpose(pad'(transpose'(x))), where the last axis goes first and comes back; where a Transpose
stands before it, what that reads is padded.
Why: targets pad height and width of [1, C, H, W] alone.
Declines for a padded batch or last axis, and for negative pads (cropping).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.pad import Pad
from nnkit.graph.read.transpose import read_transpose
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, operand, read
from nnkit.rewrite.rule import Nodes, Rule
from nnkit.rewrite.rules.merge_pad import read_constant_pad

if TYPE_CHECKING:
    import onnx_ir as ir

_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    pad: Pad


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Pad") or editor.mark(node) is not None or len(editor.shape(data_input(node))) != 4:
        return None
    before, after = editor.shape(data_input(node)), editor.shape(node.outputs[0])
    return (node,) if before[1] != after[1] and before[2] != after[2] else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    pad = read(editor, node, read_constant_pad)
    if any((pad.before[0], pad.after[0], pad.before[3], pad.after[3])):
        raise Refused("it pads the batch or the last axis, too")
    return _Match(node, pad)


def _rewrite(editor: Editor, match: _Match) -> None:
    node, name = match.node, editor.layer(match.node)
    transpose = editor.producer(data_input(node), "Transpose")
    shape = [editor.shape(node.outputs[0])[axis] for axis in _FIRST]
    if transpose is not None and read(editor, transpose, read_transpose).order == _LAST:
        source = data_input(transpose)
    else:
        transpose = None
        given = [editor.shape(data_input(node))[axis] for axis in _FIRST]
        source = editor.insert(
            node, "Transpose", [data_input(node)], {"perm": list(_FIRST)}, shape=given, name=f"{name}_first"
        )
    amounts = [each[axis] for each in (match.pad.before, match.pad.after) for axis in _FIRST]
    inputs = [source, editor.constant(f"{name}.pads", np.array(amounts, np.int64)), operand(node, 2)]
    result = editor.insert(node, "Pad", inputs, {}, shape=shape, name=f"{name}_padded")
    editor.move_tags(node, result)
    editor.take_layer_name(result, node, "_last")
    editor.become(node, "Transpose", [result], {"perm": list(_LAST)})
    if transpose is not None and editor.is_unread(transpose):
        editor.move_tags(transpose, node.outputs[0])
        editor.remove(transpose)


RULE = Rule("pad_channels_last", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
