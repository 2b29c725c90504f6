"""Merge the picking of every n-th row and column into the 1x1 op after it.

Pattern: MaxPool or AveragePool with a 1x1 window, strides and no padding -> Conv 1x1, or MaxPool or AveragePool with
a 1x1 window; the second without padding.
Algebra: both read single elements, so the strides multiply.
Declines when the result between the two is read elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.read.window import read_window
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read, read_or_none
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _reads_single_elements(editor: Editor, node: ir.Node, *op_types: str) -> bool:
    if not is_op(node, *op_types) or editor.mark(node) is not None or len(node.outputs) > 1:
        return False
    window = read_or_none(editor, node, read_window)
    return window is not None and window.kernel == (1, 1) and not any(window.pads) and not window.has_partial_windows


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not _reads_single_elements(editor, node, "Conv", "MaxPool", "AveragePool"):
        return None
    first = editor.producer(data_input(node), "MaxPool", "AveragePool")
    if first is None or not _reads_single_elements(editor, first, "MaxPool", "AveragePool"):
        return None
    return first, node


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    _, second = nodes
    editor.require_only_reader(data_input(second), second)
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    import onnx_ir as ir

    first, second = nodes
    outer, inner = read(editor, first, read_window), read(editor, second, read_window)
    strides = [a * b for a, b in zip(outer.strides, inner.strides, strict=True)]
    second.attributes["strides"] = ir.AttrInt64s("strides", strides)
    second.replace_input_with(0, data_input(first))
    editor.move_tags(first, second.outputs[0])
    editor.remove(first)


RULE = Rule("merge_subsampling", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
