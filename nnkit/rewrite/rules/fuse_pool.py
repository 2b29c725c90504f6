"""Mark a pooling as a part of the convolution that feeds it.

Pattern: Conv -> MaxPool or AveragePool, or Conv -> activation marked as a part of the Conv -> MaxPool or AveragePool.
Algebra: none; the graph stays as it is. The pooling is marked with the convolution's value, and a target stores the
pooled rows only.
Declines when a result on the way is read elsewhere or is a network output; when the pooling is dilated, not
two-dimensional or gives indices; and for an AveragePool whose windows have different numbers of elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.read.pool import read_pool
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule
from nnkit.rewrite.rules.fuse_activation import ACTIVATIONS

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "MaxPool", "AveragePool") or editor.mark(node) is not None:
        return None
    producer = editor.producer(data_input(node), "Conv", *ACTIVATIONS)
    if producer is None or is_op(producer, "Conv"):
        return None if producer is None else (producer, node)
    start = editor.producer(data_input(producer), "Conv")
    if start is None or editor.mark(producer) != start.outputs[0].name:
        return None
    return start, producer, node


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    node = nodes[-1]
    editor.require_only_reader(data_input(node), node)
    pool = read(editor, node, read_pool)
    if pool.window.dilations != (1, 1):
        raise Refused("its window is dilated")
    if pool.kind == "average" and (
        pool.window.has_partial_windows or (pool.window.reads_padding and not pool.counts_padding)
    ):
        raise Refused("its windows at the border average fewer elements than the others")
    return nodes


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    editor.set_mark(nodes[-1], nodes[0].outputs[0])


RULE = Rule("fuse_pool", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
