"""Merge two Transposes in a row.

Pattern: Transpose behind a Transpose.
Algebra: transpose(transpose(x, p), q) = transpose(x, [p[i] for i in q]); what keeps the order then is no op at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.read.transpose import read_transpose
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Transpose"):
        return None
    before = editor.producer(data_input(node), "Transpose")
    return None if before is None else (before, node)


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    before, node = nodes
    first, second = (read(editor, each, read_transpose).order for each in nodes)
    editor.become(node, "Transpose", [data_input(before)], {"perm": [first[axis] for axis in second]})
    if editor.is_unread(before):
        editor.move_tags(before, node.outputs[0])
        editor.remove(before)


RULE = Rule("merge_transposes", True, "blocks", __doc__ or "", _pattern, _check, _rewrite, whole_numbers=True)
