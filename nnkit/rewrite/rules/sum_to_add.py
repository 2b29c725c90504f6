"""Write sums as additions of two values.

Pattern: Sum of two or more values.
Algebra: a + b + c = (a + b) + c.
Declines when a part has to be broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "Sum") and len(node.inputs) >= 2 else None


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    (node,) = nodes
    shape = editor.shape(node.outputs[0])
    if any(value is None or editor.shape(value) != shape for value in node.inputs):
        raise Refused("its parts do not all have the shape of the sum")
    return node


def _rewrite(editor: Editor, node: ir.Node) -> None:
    name, shape = editor.layer(node), editor.shape(node.outputs[0])
    total, partial = data_input(node), []
    for part in node.inputs[1:-1]:
        total = editor.insert(node, "Add", [total, part], {}, shape=shape, name=f"{name}_partial")
        partial.append(total)
    editor.copy_tags(node, partial)
    editor.become(node, "Add", [total, node.inputs[-1]], {})


RULE = Rule("sum_to_add", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
