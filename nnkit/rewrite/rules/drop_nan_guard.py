"""Drop the guard against NaN behind a Softmax that gives none.

Pattern: Where(IsNaN(s), c, s) of a Softmax s, as PyTorch's exporter writes attention.
Algebra: a softmax is finite where each row of its input has an element above -infinity, so IsNaN(s) is false.
Declines where a constant mask added to the input blocks a whole row, and where a computed one may do so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    """The Where, the IsNaN and the Softmax."""
    if not is_op(node, "Where"):
        return None
    test = editor.producer(node.inputs[0], "IsNaN")
    softmax = editor.producer(node.inputs[2], "Softmax")
    if test is None or softmax is None or data_input(test) is not node.inputs[2]:
        return None
    return node, test, softmax


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    node, _, softmax = nodes
    source, result = data_input(softmax), node.outputs[0]
    if editor.shape(softmax.outputs[0]) != editor.shape(result):
        raise Refused("its other operand widens the result by broadcasting")
    if result.is_graph_output() and softmax.outputs[0].is_graph_output():
        raise Refused(f"'{softmax.outputs[0].name}' is an output of the network, too")
    axis = as_node(softmax).integer("axis", -1)
    added = editor.producer(source, "Add")
    masked = [source] if added is None else [value for value in added.inputs if value is not None]
    for value in masked:
        mask = editor.array(value)
        if mask is not None:
            # Of a mask with fewer axes the missing ones come first; the softmax's axis counts from the end.
            whole = np.broadcast_to(mask, editor.shape(source))
            if np.isneginf(whole).all(axis=axis).any():
                raise Refused("its mask blocks whole rows")
        elif _may_block(editor, value):
            raise Refused("its mask is computed and may block whole rows")
    return nodes


def _may_block(editor: Editor, value: ir.Value) -> bool:
    """Whether a choice between values puts -infinity into `value`."""
    choice = editor.producer(value, "Where")
    arrays = [] if choice is None else [editor.array(each) for each in choice.inputs[1:]]
    return any(array is not None and bool(np.isneginf(array).any()) for array in arrays)


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    node, test, softmax = nodes
    editor.move_tags(node, softmax.outputs[0])
    editor.redirect(node.outputs[0], softmax.outputs[0])
    editor.remove(node)
    if editor.is_unread(test):
        editor.move_tags(test, softmax.outputs[0])
        editor.remove(test)


RULE = Rule("drop_nan_guard", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
