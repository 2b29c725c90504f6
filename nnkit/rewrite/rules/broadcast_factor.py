"""Bring a factor that is repeated along the last axes into the form of one number for each channel.

Pattern: Mul of two computed values, one of them with axes of length 1 where the other's are longer; and an Expand
before it, which does just that.
Algebra: with all axes up to the last along which the factor differs as channels, x as [1, p, q, 1] and the factor as
[1, p, 1, 1] have the same product.
Declines where the factor is repeated along an axis before one along which it differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class _Match:
    node: ir.Node
    value: ir.Value
    factor: ir.Value
    channels: int


def _factor(editor: Editor, value: ir.Value) -> ir.Value:
    """The value, or what an Expand repeats to make it."""
    expand = editor.producer(value, "Expand")
    return value if expand is None or editor.is_cpu(expand) else data_input(expand)


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Mul") or any(value is None or editor.array(value) is not None for value in node.inputs):
        return None
    shapes = [editor.shape(_factor(editor, value)) for value in node.inputs if value is not None]
    one_each = any(len(a) == 4 and b == (*a[:2], 1, 1) for a, b in (shapes, shapes[::-1]))
    expanded = any(editor.producer(value, "Expand") is not None for value in node.inputs)
    return (node,) if shapes[0] != shapes[1] and (expanded or not one_each) else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    a, b = (_factor(editor, value) for value in node.inputs if value is not None)
    shape = editor.shape(node.outputs[0])
    value, factor = (a, b) if editor.shape(a) == shape else (b, a)
    if editor.shape(value) != shape:
        raise Refused("both its values are repeated")
    given = editor.shape(factor)
    padded = (1,) * (len(shape) - len(given)) + given
    ends = [axis for axis, size in enumerate(padded) if size > 1]
    leading = ends[-1] + 1 if ends else 1
    if padded[:leading] != shape[:leading]:
        raise Refused("its factor is repeated along other axes than the last")
    return _Match(node, value, factor, prod(shape[:leading]))


def _rewrite(editor: Editor, match: _Match) -> None:
    node, name = match.node, editor.layer(match.node)
    expands = [editor.producer(value, "Expand") for value in node.inputs]
    flat = (1, match.channels, prod(editor.shape(match.value)) // match.channels, 1)
    inputs = [
        reshaped(editor, node, match.value, flat, f"{name}_value"),
        reshaped(editor, node, match.factor, (1, match.channels, 1, 1), f"{name}_factor"),
    ]
    product = compute_then_reshape(editor, node, "Mul", inputs, {}, shape=flat, label="product")
    for expand in dict.fromkeys(expands):
        if expand is not None and editor.is_unread(expand):
            editor.move_tags(expand, product)
            editor.remove(expand)


RULE = Rule("broadcast_factor", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
