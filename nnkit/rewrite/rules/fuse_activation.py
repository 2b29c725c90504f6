"""Mark an activation as a part of the op that feeds it.

Pattern: (Conv | ConvTranspose | Add of two computed values) -> Relu, Clip with constant bounds, LeakyRelu, or PRelu
with a constant slope (one number, or one per channel).
Algebra: none; the graph stays as it is. The activation is marked with the value it is fused into, and a target
computes both in one pass.
Declines when the result between the two is read elsewhere or is a network output, or the bounds are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.read.activation import read_slopes
from nnkit.graph.read.clip import read_clip
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

ACTIVATIONS = ("Relu", "Clip", "LeakyRelu", "PRelu")


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, *ACTIVATIONS) or editor.mark(node) is not None:
        return None
    producer = editor.producer(data_input(node), "Conv", "ConvTranspose", "Add")
    return None if producer is None else (producer, node)


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    producer, node = nodes
    if is_op(producer, "Add") and any(editor.array(term) is not None for term in producer.inputs):
        raise Refused(f"'{editor.layer(producer)}' adds a constant: it is not an op that fuses")
    editor.require_only_reader(data_input(node), node)
    if is_op(node, "Clip"):
        read(editor, node, read_clip)
    if is_op(node, "PRelu"):
        read(editor, node, read_slopes)
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    producer, node = nodes
    editor.set_mark(node, producer.outputs[0])


RULE = Rule("fuse_activation", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
