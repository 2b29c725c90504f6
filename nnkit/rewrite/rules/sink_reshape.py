"""Move reshapes behind the ops that do not mind the shape.

Pattern: (Reshape | Flatten | Squeeze | Unsqueeze) -> Relu, Clip, LeakyRelu, or PRelu, Mul, Div, Add, Sub with a
constant, or BatchNormalization.
Algebra: f works element by element, so f(reshape(x)) = reshape(f(x)). Where f has constants per channel, the reshape
must keep the channels: [1, C, 1, 1] <-> [1, C] and the like.
Why: a fully connected layer becomes a convolution and a reshape; its activation has to stand next to the former.
Declines when the reshaped value is read elsewhere, or the constants belong to channels that the reshape changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.operands import per_channel
from nnkit.graph.refusal import Refused
from nnkit.rewrite.affine import affine_input
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, operand
from nnkit.rewrite.reshaping import compute_then_reshape, keeps_order
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class _Match:
    reshape: ir.Node
    node: ir.Node
    constants: tuple[tuple[int, NDArray[Any]], ...]  # input index, constant in the shape it needs before the reshape


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if is_op(node, "Relu", "Clip", "LeakyRelu", "PRelu"):
        value: ir.Value | None = data_input(node)
    else:
        value = affine_input(editor, node)
    reshape = editor.producer(value)
    if reshape is None or not keeps_order(editor, reshape) or editor.mark(node) is not None:
        return None
    return reshape, node


def _check(editor: Editor, nodes: Nodes) -> _Match:
    reshape, node = nodes
    editor.require_only_reader(reshape.outputs[0], node)
    if editor.shape(node.outputs[0]) != editor.shape(reshape.outputs[0]):
        raise Refused("its constant widens the result by broadcasting")
    before, after = editor.shape(data_input(reshape)), editor.shape(reshape.outputs[0])
    keeps_channels = len(before) >= 2 and before[:2] == after[:2]
    if is_op(node, "Relu", "Clip", "LeakyRelu"):
        return _Match(reshape, node, ())
    if is_op(node, "BatchNormalization"):
        if not keeps_channels:
            raise Refused("the reshape changes its channels")
        return _Match(reshape, node, ())
    index = next(i for i, value in enumerate(node.inputs) if value is not reshape.outputs[0])
    constant = editor.array(operand(node, index))
    if constant is None:
        raise Refused("its operand is not constant")
    if constant.size == 1:
        return _Match(reshape, node, ((index, constant.reshape(())),))
    channels = per_channel(constant, after)
    if channels is None or not keeps_channels:
        raise Refused("the reshape changes the channels that its constants belong to")
    array = channels.astype(constant.dtype).reshape(-1, *[1] * (len(before) - 2))
    return _Match(reshape, node, ((index, array),))


def _rewrite(editor: Editor, match: _Match) -> None:
    reshape, node = match.reshape, match.node
    name, value, result = editor.layer(node), data_input(reshape), node.outputs[0]
    inputs = [value if v is reshape.outputs[0] else v for v in node.inputs]
    for index, array in match.constants:
        inputs[index] = editor.constant(f"{name}.constant", np.asarray(array))
    attributes = dict(node.attributes)
    compute_then_reshape(
        editor, node, str(node.op_type), inputs, attributes, shape=editor.shape(value), label="moved"
    )
    editor.move_tags(reshape, result)
    editor.take_layer_name(result, reshape, "_former")
    editor.remove(reshape)


RULE = Rule("sink_reshape", True, "carries", __doc__ or "", _pattern, _check, _rewrite, whole_numbers=True)
