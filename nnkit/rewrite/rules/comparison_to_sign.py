"""Write a comparison that is read as 0 or 1 as the sign of a difference.

Pattern: Cast to float32 of Equal, Greater, GreaterOrEqual, Less or LessOrEqual of two values, as detectors choose the
  peaks of a map, `(max_pool(x) == x).float() * x`, and networks their masks.
Algebra: a = b is 1 - sign(|a - b|), a > b is sign(relu(a - b)), a <= b is 1 - sign(relu(a - b)); a < b is b > a, and
  a >= b is b <= a. The sign of a difference is exact in float32, and 0 and 1 are in every format of 0 to 1.
Declines for numbers that are not floats.
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

_COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
_FLOAT = 1  # TensorProto.FLOAT


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    """The Cast and the comparison."""
    if not is_op(node, "Cast") or as_node(node).integer("to", 0) != _FLOAT:
        return None
    comparison = editor.producer(data_input(node), *_COMPARISONS)
    return None if comparison is None else (node, comparison)


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    _, comparison = nodes
    if any(value is None or value.dtype is None or int(value.dtype) != _FLOAT for value in comparison.inputs):
        raise Refused("it compares numbers that are no float32")
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    cast, comparison = nodes
    name, kind = editor.layer(comparison), str(comparison.op_type)
    a, b = comparison.inputs
    if kind in ("Less", "GreaterOrEqual"):  # what counts is whether b is the greater one
        a, b = b, a
    shape = editor.shape(cast.outputs[0])
    made: list[ir.Value] = []

    def add(op_type: str, label: str, *inputs: ir.Value | None) -> ir.Value:
        made.append(editor.insert(cast, op_type, inputs, {}, shape=shape, name=f"{name}_{label}"))
        return made[-1]

    apart = add("Abs" if kind == "Equal" else "Relu", "apart", add("Sub", "difference", a, b))
    if kind in ("Greater", "Less"):
        editor.become(cast, "Sign", [apart], {})
    else:
        one = editor.constant(f"{name}.one", np.array(1.0, np.float32))
        editor.become(cast, "Sub", [one, add("Sign", "sign", apart)], {})
    editor.copy_tags(comparison, made)
    if editor.is_unread(comparison):
        editor.forget_tags(comparison)
        editor.remove(comparison)


RULE = Rule("comparison_to_sign", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
