"""Put a Relu before a concatenation or nearest resize, which only copy values.

Pattern: Concat or Resize (nearest) -> Relu.
Algebra: relu([a, b]) = [relu(a), relu(b)], as of all functions of single values.
Why: a compiler that makes the same step by itself, behind calibration, has no ranges for the values that it makes; or
  its code for a resize leaves the Relu out.
Declines when the copies are read elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.read.resize import read_resize
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Relu"):
        return None
    copy = editor.producer(data_input(node), "Concat", "Resize", "Upsample")
    if copy is None or (not is_op(copy, "Concat") and read(editor, copy, read_resize).mode != "nearest"):
        return None
    return copy, node


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    copy, relu = nodes
    editor.require_only_reader(copy.outputs[0], relu)
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    copy, relu = nodes
    name, relu_name = editor.layer(copy), editor.layer(relu)
    count = len(copy.inputs) if is_op(copy, "Concat") else 1
    moved = [
        editor.insert(copy, "Relu", [part], {}, shape=editor.shape(part), name=f"{relu_name}_part{number}")
        for number, part in enumerate(copy.inputs[:count])
        if part is not None
    ]
    editor.copy_tags(relu, moved)
    editor.forget_tags(relu)
    editor.become(relu, str(copy.op_type), [*moved, *copy.inputs[count:]], dict(copy.attributes))
    editor.move_tags(copy, relu.outputs[0])
    editor.remove(copy)
    relu.name = name


RULE = Rule("relu_before_copies", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
