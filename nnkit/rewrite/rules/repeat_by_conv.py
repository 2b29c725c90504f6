"""Repeat a map of one channel by a convolution, where it is added to or multiplies every channel.

Pattern: Add or Mul of computed [1, C, H, W] and [1, 1, H, W], as spatial attention has it; Mul of [1, C, 1, 1] and
[1, 1, H, W].
Algebra: a 1x1 convolution of C weights of 1 gives the map C times; both operands then have one shape,
  or are a map and its factors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Add", "Mul") or editor.mark(node) is not None:
        return None
    if any(value is None or editor.array(value) is not None for value in node.inputs):
        return None
    shape = editor.shape(node.outputs[0])
    if len(shape) != 4 or shape[0] != 1 or shape[1] == 1 or max(shape[2:]) == 1:
        return None
    shapes = [editor.shape(value) for value in node.inputs if value is not None]
    one_map = (1, 1, *shape[2:])
    others = [shape, (1, shape[1], 1, 1)] if is_op(node, "Mul") else [shape]
    return (node,) if one_map in shapes and any(other in shapes for other in others) else None


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    return nodes[0]


def _rewrite(editor: Editor, node: ir.Node) -> None:
    name, shape = editor.layer(node), editor.shape(node.outputs[0])
    ones = editor.constant(f"{name}.repeat", np.ones((shape[1], 1, 1, 1), np.float32))
    inputs = [
        value
        if value is None or editor.shape(value) != (1, 1, *shape[2:])
        else editor.insert(node, "Conv", [value, ones], {}, shape=shape, name=f"{name}_repeated")
        for value in node.inputs
    ]
    editor.copy_tags(node, [value for value in inputs if value is not None and value not in tuple(node.inputs)])
    editor.set_inputs(node, inputs)


RULE = Rule("repeat_by_conv", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
