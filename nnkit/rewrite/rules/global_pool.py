"""Write pooling over the whole of H and W in one form.

Pattern: ReduceMean or ReduceMax over axes 2 and 3 of [N, C, H, W], with or without keepdims; AveragePool with one
window of HxW and no padding; GlobalMaxPool; MaxPool with one such window and a stride.
Algebra: mean over H and W = GlobalAveragePool; maximum over H and W = MaxPool with an HxW window; without keepdims
a Reshape to [N, C] follows. The stride of a single window moves nothing.
Declines when other axes are reduced too, or the axes are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.read.reduce import read_reduce
from nnkit.graph.read.window import SlidingWindow, read_window
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read, read_or_none
from nnkit.rewrite.reshaping import compute_then_reshape
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "ReduceMean", "ReduceMax", "GlobalMaxPool", "AveragePool", "MaxPool"):
        return None
    if len(editor.shape(data_input(node))) != 4 or len(node.outputs) != 1:
        return None
    if is_op(node, "AveragePool", "MaxPool"):
        window = read_or_none(editor, node, read_window)
        if window is None or not _covers_all(window) or (is_op(node, "MaxPool") and window.strides == (1, 1)):
            return None
    return (node,)


def _covers_all(window: SlidingWindow) -> bool:
    return (
        window.kernel == window.input_hw
        and window.output_hw == (1, 1)
        and window.dilations == (1, 1)
        and not any(window.pads)
    )


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    (node,) = nodes
    if is_op(node, "GlobalMaxPool", "AveragePool", "MaxPool"):
        return node
    axes = read(editor, node, read_reduce).axes
    if axes != (2, 3):
        raise Refused(f"it reduces the axes {list(axes)} instead of H and W, [2, 3]")
    return node


def _rewrite(editor: Editor, node: ir.Node) -> None:
    value, result = data_input(node), node.outputs[0]
    images, channels, height, width = editor.shape(value)
    if is_op(node, "ReduceMax", "GlobalMaxPool", "MaxPool"):
        op_type = "MaxPool"
        attributes = {"kernel_shape": [height, width], "strides": [1, 1], "pads": [0, 0, 0, 0]}
    else:
        op_type, attributes = "GlobalAveragePool", {}
    if len(editor.shape(result)) == 4:
        editor.become(node, op_type, [value], attributes)
        return
    compute_then_reshape(editor, node, op_type, [value], attributes, shape=(images, channels, 1, 1), label="pool")


RULE = Rule("global_pool", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
