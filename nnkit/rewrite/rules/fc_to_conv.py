"""Make a fully connected layer a convolution.

Pattern: Gemm, or MatMul with a constant right operand, with one row (batch 1).
Algebra: y_o = sum_f W[o, f] x[f] + b_o.
  x is [1, C, H, W] flattened in element order: y = conv(W as [O, C, H, W], x), one full window, no padding;
  any other x of F elements: y = conv(W as [O, F, 1, 1], x as [1, F, 1, 1]).
Gemm's alpha, beta, transA and transB are multiplied or transposed into W and b. The convolution's [1, O, 1, 1] is
reshaped to what the layer gave. A bias that follows a MatMul as an Add is folded by add_constant_to_bias.
Declines for a product of two computed values, for more than one row, and for weights or a bias that are computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.linear import Linear, read_linear
from nnkit.rewrite.reading import data_input, is_op
from nnkit.rewrite.reshaping import compute_then_reshape, keeps_order, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class _Match:
    node: ir.Node
    linear: Linear
    flatten: ir.Node | None  # the reshape that can be bypassed


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "Gemm", "MatMul") else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    linear = read_linear(editor, node)
    before = editor.producer(data_input(node))
    if before is None or not keeps_order(editor, before) or editor.is_cpu(before):
        return _Match(node, linear, None)
    if before.outputs[0].is_graph_output():  # it stays, and what reads it reads its output
        return _Match(node, linear, None)
    return _Match(node, linear, before if len(editor.shape(data_input(before))) == 4 else None)


def _rewrite(editor: Editor, match: _Match) -> None:
    node, linear = match.node, match.linear
    name = editor.layer(node)
    if match.flatten is not None:
        source = data_input(match.flatten)
    else:
        source = reshaped(editor, node, data_input(node), (1, linear.inputs, 1, 1), f"{name}_input")
    kernel = editor.shape(source)[1:]
    weight = linear.weight.reshape(linear.outputs, *kernel).astype(np.float32)
    inputs = [
        source,
        editor.constant(f"{name}.weight", weight),
        editor.constant(f"{name}.bias", linear.bias.astype(np.float32)),
    ]
    attributes = {"kernel_shape": list(kernel[1:]), "strides": [1, 1], "pads": [0, 0, 0, 0]}
    output = compute_then_reshape(
        editor, node, "Conv", inputs, attributes, shape=(1, linear.outputs, 1, 1), label="conv"
    )
    if match.flatten is not None and editor.is_unread(match.flatten):
        editor.move_tags(match.flatten, output)
        editor.remove(match.flatten)


RULE = Rule("fc_to_conv", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
