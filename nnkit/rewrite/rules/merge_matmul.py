"""Make one product of a matrix that all heads share.

Pattern: MatMul of [..., m, k] and a computed [1, ..., 1, k, n] with fewer matrices, as multi-query attention has it.
Algebra: the rows of all matrices one below the other, [M * m, k] times [k, n].
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, operand
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "MatMul"):
        return None
    left, right = data_input(node), operand(node, 1)
    if right is None or editor.array(left) is not None or editor.array(right) is not None:
        return None
    ahead, shared = editor.shape(left)[:-2], editor.shape(right)[:-2]
    return (node,) if prod(shared) == 1 < prod(ahead) and len(shared) <= len(ahead) else None


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    return nodes[0]


def _rewrite(editor: Editor, node: ir.Node) -> None:
    name, left, right = editor.layer(node), data_input(node), operand(node, 1)
    if right is None:
        return
    (*ahead, rows, inner), columns = editor.shape(left), editor.shape(right)[-1]
    below = (1, prod(ahead) * rows, inner)
    inputs = [
        reshaped(editor, node, left, below, f"{name}_rows"),
        reshaped(editor, node, right, (1, inner, columns), f"{name}_shared"),
    ]
    compute_then_reshape(editor, node, "MatMul", inputs, {}, shape=(*below[:2], columns), label="product")


RULE = Rule("merge_matmul", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
