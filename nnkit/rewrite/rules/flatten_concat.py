"""Flatten nested concatenations.

Pattern: Concat -> Concat along the same axis.
Algebra: [[a, b], c] = [a, b, c]; the order of the parts stays.
Declines when the inner result is read elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.read.concat import read_concat
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op, read
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Concat"):
        return None
    outer = next((use.node for use in node.outputs[0].uses() if is_op(use.node, "Concat")), None)
    if outer is None or read(editor, outer, read_concat).axis != read(editor, node, read_concat).axis:
        return None
    return node, outer


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    inner, outer = nodes
    editor.require_only_reader(inner.outputs[0], outer)
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    inner, outer = nodes
    parts: list[ir.Value | None] = []
    for part in outer.inputs:
        parts += inner.inputs if part is inner.outputs[0] else [part]
    editor.set_inputs(outer, parts)
    editor.move_tags(inner, outer.outputs[0])
    editor.remove(inner)


RULE = Rule("flatten_concat", True, "blocks", __doc__ or "", _pattern, _check, _rewrite, whole_numbers=True)
