"""Write a choice between x and a multiple of it by x's sign as LeakyRelu.

Pattern: Where(x > 0, x, a x), Where(x >= 0, x, a x), Where(x < 0, a x, x) or Where(x <= 0, a x, x); 0 in place of a x
is a = 0.
Algebra: all are max(x, 0) + a min(x, 0): at 0 both sides are 0.
Declines for other thresholds than 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, operand, scalar_of
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_ABOVE, _BELOW = ("Greater", "GreaterOrEqual"), ("Less", "LessOrEqual")


@dataclass(frozen=True, eq=False)
class _Match:
    choice: ir.Node
    value: ir.Value
    slope: float
    parts: Nodes


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    """The Where, and the test of the value that it chooses."""
    if not is_op(node, "Where"):
        return None
    test = editor.producer(node.inputs[0], *_ABOVE, *_BELOW)
    if test is None or data_input(test) is not node.inputs[1 if is_op(test, *_ABOVE) else 2]:
        return None
    return node, test


def _check(editor: Editor, nodes: Nodes) -> _Match:
    node, test = nodes
    value, other = data_input(test), operand(node, 2 if is_op(test, *_ABOVE) else 1)
    if scalar_of(editor, operand(test, 1)) != 0.0:
        raise Refused("it compares with another number than 0")
    if editor.shape(value) != editor.shape(node.outputs[0]):
        raise Refused("the choice widens the value by broadcasting")
    if scalar_of(editor, other) == 0.0:
        return _Match(node, value, 0.0, (test,))
    product = editor.producer(other, "Mul")
    inputs = () if product is None else product.inputs
    slopes = [scalar_of(editor, each) for each in inputs if each is not value]
    if product is None or len(slopes) != 1 or slopes[0] is None:
        raise Refused("the other choice is not a multiple of the value")
    return _Match(node, value, slopes[0], (test, product))


def _rewrite(editor: Editor, match: _Match) -> None:
    if match.slope == 0.0:
        editor.become(match.choice, "Relu", [match.value], {})
    else:
        editor.become(match.choice, "LeakyRelu", [match.value], {"alpha": match.slope})
    for part in match.parts:
        if editor.is_unread(part):
            editor.move_tags(part, match.choice.outputs[0])
            editor.remove(part)


RULE = Rule("choice_to_leaky_relu", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
