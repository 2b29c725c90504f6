"""Merge chains of ops that only change the shape.

Pattern: f -> g, both of Reshape, Flatten, Squeeze, Unsqueeze, or a Transpose that moves axes of length 1 only.
Algebra: all of them keep the elements in order, so g(f(x)) = reshape(x, shape of g(f(x))).
Also a lone Transpose of that kind becomes a Reshape.
f stays where others read it too.
Declines where what f gives is an output of the network, and g reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op
from nnkit.rewrite.reshaping import keeps_order
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not keeps_order(editor, node):
        return None
    before = editor.producer(data_input(node))
    if before is not None and keeps_order(editor, before):
        return before, node
    return (node,) if is_op(node, "Transpose") else None


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    if len(nodes) == 2 and nodes[0].outputs[0].is_graph_output():
        raise Refused(f"what it reads, '{nodes[0].outputs[0].name}', is an output of the network")
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    first, last = nodes[0], nodes[-1]
    result = last.outputs[0]
    shape = editor.constant(f"{editor.layer(last)}.shape", np.array(editor.shape(result), np.int64))
    editor.become(last, "Reshape", [data_input(first), shape], {})
    if first is not last and editor.is_unread(first):
        editor.move_tags(first, result)
        editor.remove(first)


RULE = Rule("collapse_reshape", True, "blocks", __doc__ or "", _pattern, _check, _rewrite, whole_numbers=True)
