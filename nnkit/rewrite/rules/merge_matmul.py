"""Make one product of a matrix that several heads share.

Pattern: MatMul of [..., m, k] and a computed [..., k, n] that has one matrix where the first has several, as
multi-query attention has one for all heads, and a lambda layer one for the heads of each pixel.
Algebra: the rows of all matrices that share one stand one below the other, [M * m, k] times [k, n]; where the axis
of those matrices is not the last before the rows, it is moved there and back.
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
    if len(editor.shape(right)) < 2 or len(shared) > len(ahead):
        return None
    pairs = tuple(zip(ahead, _same_rank(shared, len(ahead)), strict=True))
    one_for_several = any(several > one == 1 for several, one in pairs)
    return (node,) if one_for_several and all(one in (1, several) for several, one in pairs) else None


def _same_rank(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(shape)) + shape


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    return nodes[0]


def _rewrite(editor: Editor, node: ir.Node) -> None:
    name, left, right = editor.layer(node), data_input(node), operand(node, 1)
    if right is None:
        return
    (*ahead, rows, inner), columns = editor.shape(left), editor.shape(right)[-1]
    shared = _same_rank(editor.shape(right)[:-2], len(ahead))
    below = [axis for axis, one in enumerate(shared) if one < ahead[axis]]
    apart = [axis for axis in range(len(ahead)) if axis not in below]
    order = [*apart, *below, len(ahead)]
    moved = [axis for axis in order[:-1] if ahead[axis] > 1]
    matrices, all_rows = prod(ahead[axis] for axis in apart), prod(ahead[axis] for axis in below) * rows
    if moved != sorted(moved):
        shape = [(*ahead, rows, inner)[axis] for axis in (*order, len(order))]
        perm = {"perm": [*order, len(order)]}
        left = editor.insert(node, "Transpose", [left], perm, shape=shape, name=f"{name}_moved")
    inputs = [
        reshaped(editor, node, left, (matrices, all_rows, inner), f"{name}_rows"),
        reshaped(editor, node, right, (matrices, inner, columns), f"{name}_shared"),
    ]
    product = (matrices, all_rows, columns)
    if moved == sorted(moved):
        compute_then_reshape(editor, node, "MatMul", inputs, {}, shape=product, label="product")
        return
    result = editor.insert(node, "MatMul", inputs, {}, shape=product, name=f"{name}_product")
    editor.move_tags(node, result)
    editor.take_layer_name(result, node, "_output")
    by_axes = [(*ahead, rows, columns)[axis] for axis in (*order, len(order))]
    back = [*(order.index(axis) for axis in range(len(order))), len(order)]
    editor.become(node, "Transpose", [reshaped(editor, node, result, tuple(by_axes), f"{name}_axes")], {"perm": back})


RULE = Rule("merge_matmul", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
