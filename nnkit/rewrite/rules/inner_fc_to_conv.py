"""Make a fully connected layer a convolution where other layers than its like follow.

Pattern: Gemm, or MatMul with a constant right operand, with one row (batch 1), as for fc_to_conv.
Algebra: as in fc_to_conv.
For hardware that lets activations, softmax and fully connected layers alone follow a fully connected layer: a product
with something computed, a sum or a concatenation behind it would run elsewhere.
Declines where such layers alone lie between it and the outputs, and where fc_to_conv declines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op, operand
from nnkit.rewrite.rule import AnyRule, Nodes, Rule
from nnkit.rewrite.rules import fc_to_conv
from nnkit.rewrite.rules.nonfinal_fc_to_conv import followed_by_alone

if TYPE_CHECKING:
    import onnx_ir as ir

_FOLLOW = ("Relu", "LeakyRelu", "PRelu", "Sigmoid", "Tanh", "Abs", "Elu", "Softplus", "Dropout", "Identity")


def _check(editor: Editor, nodes: Nodes) -> Any:
    match = fc_to_conv.RULE.check(editor, nodes)
    if _has_its_like_behind(editor, nodes[0].outputs[0]):
        raise Refused("activations, softmax and fully connected layers alone follow it")
    return match


def _has_its_like_behind(editor: Editor, value: ir.Value) -> bool:
    return followed_by_alone(
        editor,
        value,
        passes=lambda node: is_op(node, "Softmax", "LogSoftmax", *_FOLLOW),
        ends=lambda node: is_op(node, "Gemm", "MatMul") and editor.array(operand(node, 1)) is not None,
    )  # a product is judged by itself


RULE: AnyRule = Rule(
    "inner_fc_to_conv",
    True,
    "carries",
    __doc__ or "",
    fc_to_conv.RULE.pattern,
    _check,
    fc_to_conv.RULE.rewrite,
)
