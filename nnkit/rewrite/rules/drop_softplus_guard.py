"""Drop the choice by which PyTorch keeps a Softplus from overflowing.

Pattern: Where(Greater(u, t), x, y) with y = Softplus(u) and u = x, or y = Softplus(u) / b and u = x * b, as the
exporter writes `torch.nn.Softplus`.
Algebra: Softplus(u) = u + log(1 + exp(-u)), which is u to float32 rounding where u > 15.
Declines where the threshold t is smaller.
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

_LEAST_THRESHOLD = 15.0
"""log(1 + exp(-15)) is 3.1e-7, 2e-8 of 15: a third of the distance between neighbouring float32 numbers."""


@dataclass(frozen=True, eq=False)
class _Match:
    choice: ir.Node
    test: ir.Node
    result: ir.Value


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    """The Where and the Greater."""
    if not is_op(node, "Where"):
        return None
    test = editor.producer(node.inputs[0], "Greater")
    if test is None or _softplus_input(editor, operand(node, 1), operand(node, 2)) is not data_input(test):
        return None
    return node, test


def _softplus_input(editor: Editor, x: ir.Value | None, y: ir.Value | None) -> ir.Value | None:
    """u, where y is Softplus(u) of u = x, or Softplus(u) / b of u = x * b."""
    softplus = editor.producer(y, "Softplus")
    if softplus is not None:
        return x if data_input(softplus) is x else None
    quotient = editor.producer(y, "Div")
    softplus = None if quotient is None else editor.producer(data_input(quotient), "Softplus")
    product = None if softplus is None else editor.producer(data_input(softplus), "Mul")
    if quotient is None or product is None or data_input(product) is not x:
        return None
    factors = scalar_of(editor, operand(product, 1)), scalar_of(editor, operand(quotient, 1))
    return product.outputs[0] if factors[0] is not None and factors[0] == factors[1] and factors[0] > 0.0 else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    node, test = nodes
    threshold, result = scalar_of(editor, operand(test, 1)), operand(node, 2)
    if threshold is None or result is None or threshold < _LEAST_THRESHOLD:
        raise Refused("its threshold is computed or under 15: below it Softplus(x) is not x")
    if node.outputs[0].is_graph_output() and result.is_graph_output():
        raise Refused(f"'{result.name}' is an output of the network, too")
    return _Match(node, test, result)


def _rewrite(editor: Editor, match: _Match) -> None:
    editor.move_tags(match.choice, match.result)
    editor.redirect(match.choice.outputs[0], match.result)
    editor.remove(match.choice)
    if editor.is_unread(match.test):
        editor.move_tags(match.test, match.result)
        editor.remove(match.test)


RULE = Rule("drop_softplus_guard", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
