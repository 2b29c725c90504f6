"""Move reshapes that are alike behind what computes with their results element by element.

Pattern: (Reshape | Flatten | Squeeze | Unsqueeze) of every operand -> Add, Sub, Mul, Div, Max, Min or Sum.
Algebra: f works element by element, so f(reshape(x), reshape(y)) = reshape(f(x, y)) where x and y have one shape.
Why: layers over one dimension become layers over two and reshapes; a residual sum stands between those.
Declines when a reshaped value is read elsewhere, or the values have other shapes before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op
from nnkit.rewrite.reshaping import compute_then_reshape, keeps_order
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Add", "Sub", "Mul", "Div", "Max", "Min", "Sum") or len(node.inputs) < 2:
        return None
    reshapes = [editor.producer(value) for value in node.inputs]
    if any(each is None or not keeps_order(editor, each) for each in reshapes) or editor.mark(node) is not None:
        return None
    return (*dict.fromkeys(each for each in reshapes if each is not None), node)


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    *reshapes, node = nodes
    result = editor.shape(node.outputs[0])
    for each in reshapes:
        editor.require_only_reader(each.outputs[0], node)
        if editor.shape(each.outputs[0]) != result:
            raise Refused("its operands have several shapes")
    if len({editor.shape(data_input(each)) for each in reshapes}) > 1:
        raise Refused("its operands had several shapes before")
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    *reshapes, node = nodes
    before = {each.outputs[0]: data_input(each) for each in reshapes}
    inputs = [None if value is None else before[value] for value in node.inputs]
    shape, result = editor.shape(data_input(reshapes[0])), node.outputs[0]
    compute_then_reshape(editor, node, str(node.op_type), inputs, dict(node.attributes), shape=shape, label="moved")
    for each in reshapes:
        editor.move_tags(each, result)
    editor.take_layer_name(result, reshapes[0], "_former")
    for each in reshapes:
        editor.remove(each)


RULE = Rule("sink_equal_reshapes", True, "carries", __doc__ or "", _pattern, _check, _rewrite, whole_numbers=True)
