"""Mark an activation as a part of the op that feeds it.

Pattern: (Conv | ConvTranspose | Add of two computed values) -> Relu, Clip with constant bounds, LeakyRelu, or PRelu
with a constant slope (one number, or one per channel).
Algebra: none; the graph stays as it is. The activation is marked with the value it is fused into, and a target
computes both in one pass.
Declines when the result between the two is read elsewhere or is a network output, or the bounds are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import clip_bounds, data_input, is_op, operand, per_channel
from nnkit.rewrite.rule import Declined, Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

ACTIVATIONS = ("Relu", "Clip", "LeakyRelu", "PRelu")


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, *ACTIVATIONS) or editor.mark(node) is not None:
        return None
    producer = editor.producer(data_input(node), "Conv", "ConvTranspose", "Add")
    return None if producer is None else (producer, node)


def _check(editor: Editor, nodes: Nodes) -> Nodes | Declined:
    producer, node = nodes
    value = data_input(node)
    if is_op(producer, "Add") and any(editor.array(term) is not None for term in producer.inputs):
        return Declined(f"'{editor.layer(producer)}' adds a constant: it is not an op that fuses")
    other = editor.other_uses(value, node)
    if other is not None:
        return Declined(other)
    if is_op(node, "Clip") and clip_bounds(editor, node) is None:
        return Declined("its bounds are not constant")
    if is_op(node, "PRelu"):
        slope = editor.array(operand(node, 1))
        if slope is None:
            return Declined("its slopes are not constant")
        if slope.size != 1 and per_channel(slope, editor.shape(value)) is None:
            return Declined("its slopes differ within a channel")
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    producer, node = nodes
    editor.set_mark(node, producer.outputs[0])


RULE = Rule("fuse_activation", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
