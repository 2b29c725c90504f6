"""Put the gate of a channel-wise product second.

Pattern: Mul of [1, C, 1, 1] and [1, C, H, W], both computed (squeeze-and-excitation).
Algebra: a * b = b * a.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Mul"):
        return None
    left, right = node.inputs
    if left is None or right is None or editor.array(left) is not None or editor.array(right) is not None:
        return None
    result = editor.shape(node.outputs[0])
    return (node,) if editor.shape(left) != result and editor.shape(right) == result else None


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    return nodes[0]


def _rewrite(editor: Editor, node: ir.Node) -> None:
    left, right = node.inputs
    editor.set_inputs(node, [right, left])


RULE = Rule("order_mul", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
