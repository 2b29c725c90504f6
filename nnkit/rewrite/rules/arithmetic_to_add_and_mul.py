"""Write differences, quotients, maxima and minima of two computed values, and negatives, with sums and products.

Pattern: Sub, Div, Max or Min of two computed values; Neg.
Algebra: a - b = a + (-1) b; -a = (-1) a; a / b = a (1 / b), also for a constant a, and of what an Expand repeats;
  max(a, b) = b + relu(a - b); min(a, b) = a - relu(a - b).
Declines where maxima or minima are of more than two values, or of different shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if is_op(node, "Neg"):
        return (node,)
    if not is_op(node, "Sub", "Div", "Max", "Min") or any(value is None for value in node.inputs):
        return None
    constant = [editor.array(value) is not None for value in node.inputs]
    return None if constant[-1] or (constant[0] and not is_op(node, "Div")) else (node,)


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    (node,) = nodes
    if is_op(node, "Max", "Min"):
        if len(node.inputs) != 2:
            raise Refused(f"it is of {len(node.inputs)} values")
        if len({editor.shape(value) for value in node.inputs if value is not None}) > 1:
            raise Refused("its values have different shapes")
    return node


def _rewrite(editor: Editor, node: ir.Node) -> None:
    name = editor.layer(node)
    made: list[ir.Value] = []
    expand: ir.Node | None = None
    minus_one = editor.constant(f"{name}.minus_one", np.array(-1.0, np.float32))
    if is_op(node, "Neg"):
        editor.become(node, "Mul", [data_input(node), minus_one], {})
        return
    a, b = (value for value in node.inputs if value is not None)

    def add(op_type: str, label: str, *inputs: ir.Value) -> ir.Value:
        shape = np.broadcast_shapes(*map(editor.shape, inputs))
        made.append(editor.insert(node, op_type, inputs, {}, shape=shape, name=f"{name}_{label}"))
        return made[-1]

    def negative(value: ir.Value) -> ir.Value:
        return add("Mul", "negative", value, minus_one)

    if is_op(node, "Sub"):
        op_type, inputs = "Add", [a, negative(b)]
    elif is_op(node, "Div"):
        expand = editor.producer(b, "Expand")
        if expand is not None and not editor.is_cpu(expand):
            b = data_input(expand)
        op_type, inputs = "Mul", [a, add("Reciprocal", "reciprocal", b)]
    else:
        above = add("Relu", "above", add("Add", "difference", a, negative(b)))
        op_type, inputs = "Add", [b, above] if is_op(node, "Max") else [a, negative(above)]
    editor.copy_tags(node, made)
    editor.become(node, op_type, inputs, {})
    if expand is not None and editor.is_unread(expand):
        editor.move_tags(expand, made[0])
        editor.remove(expand)


RULE = Rule("arithmetic_to_add_and_mul", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
