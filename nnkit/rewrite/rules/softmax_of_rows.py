"""Take the softmax along the channels or along the rows of a matrix.

Pattern: Softmax along the last of more than three axes, or of a batch of several, or along another axis than the last
one and the channels of [1, C, H, W].
Algebra: along the last axis of [..., n] it is that of [1, rows, n]; a Transpose brings another axis to the end, one
back.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _axis(editor: Editor, node: ir.Node) -> int:
    return as_node(node).integer("axis", -1) % len(editor.shape(data_input(node)))


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Softmax"):
        return None
    axis, shape = _axis(editor, node), editor.shape(data_input(node))
    if axis == len(shape) - 1:
        return (node,) if len(shape) > 3 or shape[0] != 1 else None
    return None if len(shape) == 4 and axis == 1 and shape[0] == 1 else (node,)


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    return nodes[0]


def _rewrite(editor: Editor, node: ir.Node) -> None:
    name, value, axis = editor.layer(node), data_input(node), _axis(editor, node)
    shape = editor.shape(value)
    if axis == len(shape) - 1:
        rows = (1, prod(shape[:-1]), shape[-1])
        inputs = [reshaped(editor, node, value, rows, f"{name}_input")]
        compute_then_reshape(editor, node, "Softmax", inputs, {"axis": -1}, shape=rows, label="rows")
    else:
        order = [i for i in range(len(shape)) if i != axis] + [axis]
        turned = [shape[i] for i in order]
        value = editor.insert(node, "Transpose", [value], {"perm": order}, shape=turned, name=f"{name}_turned")
        softmax = editor.insert(node, "Softmax", [value], {"axis": -1}, shape=turned, name=f"{name}_last")
        editor.move_tags(node, softmax)
        editor.take_layer_name(softmax, node, "_back")
        editor.become(node, "Transpose", [softmax], {"perm": [order.index(i) for i in range(len(shape))]})


RULE = Rule("softmax_of_rows", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
