"""Make every fully connected layer but the last one a convolution.

Pattern: Gemm, or MatMul with a constant right operand, with one row (batch 1), as for fc_to_conv.
Algebra: y_o = sum_f W[o, f] x[f] + b_o is conv(W, x) over one full window, as in fc_to_conv.
For hardware that lets softmax alone follow a fully connected layer. The last layer of the network, after which come
at most reshapes and softmax up to the outputs, may therefore stay what it is, and does; every other becomes a
convolution.
Declines for the last layer, and where fc_to_conv declines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op
from nnkit.rewrite.reshaping import keeps_order
from nnkit.rewrite.rule import AnyRule, Nodes, Rule
from nnkit.rewrite.rules import fc_to_conv

if TYPE_CHECKING:
    import onnx_ir as ir


def _check(editor: Editor, nodes: Nodes) -> Any:
    match = fc_to_conv.RULE.check(editor, nodes)
    if is_final(editor, nodes[0].outputs[0]):
        raise Refused("it is the last layer, which only softmax may follow: it stays fully connected")
    return match


def is_final(editor: Editor, value: ir.Value) -> bool:
    """Whether reshapes and softmax alone lie between `value` and the network's outputs."""
    return followed_by_alone(editor, value, lambda node: is_op(node, "Softmax", "LogSoftmax"))


def followed_by_alone(
    editor: Editor,
    value: ir.Value,
    passes: Callable[[ir.Node], bool],
    ends: Callable[[ir.Node], bool] = lambda node: False,
) -> bool:
    """Whether only reshapes and nodes that `passes` lie between `value` and the outputs, or nodes where it `ends`."""
    pending = [value]
    while pending:
        for node in editor.users(pending.pop()):
            if ends(node):
                continue
            if not (keeps_order(editor, node) or passes(node)):
                return False
            pending += node.outputs
    return True


RULE: AnyRule = Rule(
    "nonfinal_fc_to_conv",
    True,
    "carries",
    __doc__ or "",
    fc_to_conv.RULE.pattern,
    _check,
    fc_to_conv.RULE.rewrite,
)
