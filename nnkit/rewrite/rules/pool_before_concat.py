"""Pool the parts of a concatenation instead of the whole, so that each pooling can be fused.

Pattern: Concat along the channels -> MaxPool or AveragePool, where a part is the result of a convolution, with or
without its activation, that nobody else reads.
Algebra: pooling works on each channel alone, so pool([a, b]) = [pool(a), pool(b)].
Why: the large unpooled concatenation is never stored. (A Fire module followed by a pooling.)
Declines when the concatenation is read elsewhere, when the pooling gives indices, and when no part could be fused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnkit.graph.read.concat import read_concat
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule
from nnkit.rewrite.rules.fuse_activation import ACTIVATIONS

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "MaxPool", "AveragePool"):
        return None
    concat = editor.producer(data_input(node), "Concat")
    return None if concat is None or read(editor, concat, read_concat).axis != 1 else (concat, node)


def _check(editor: Editor, nodes: Nodes) -> Nodes:
    concat, pool = nodes
    editor.require_only_reader(concat.outputs[0], pool)
    if len(pool.outputs) > 1:
        raise Refused("the pooling gives indices too")
    if not any(_comes_from_convolution(editor, part) for part in concat.inputs):
        raise Refused("no part is the result of a convolution that it could be fused into")
    return nodes


def _comes_from_convolution(editor: Editor, part: ir.Value | None) -> bool:
    if part is None or editor.only_user(part) is None:
        return False
    producer = editor.producer(part, "Conv", *ACTIVATIONS)
    if producer is None or is_op(producer, "Conv"):
        return producer is not None
    before = data_input(producer)
    return editor.producer(before, "Conv") is not None and editor.only_user(before) is producer


def _rewrite(editor: Editor, nodes: Nodes) -> None:
    concat, pool = nodes
    result = pool.outputs[0]
    height, width = editor.shape(result)[2:]
    concat_name, pool_name = editor.layer(concat), editor.layer(pool)
    parts: list[ir.Value] = []
    for number, part in enumerate(concat.inputs):
        if part is None:
            continue
        shape = (1, editor.shape(part)[1], height, width)
        name = f"{pool_name}_part{number}"
        parts.append(editor.insert(pool, str(pool.op_type), [part], dict(pool.attributes), shape=shape, name=name))
    editor.copy_tags(pool, parts)
    editor.forget_tags(pool)
    editor.become(pool, "Concat", parts, {"axis": 1})
    editor.move_tags(concat, result)
    editor.remove(concat)
    pool.name = concat_name


RULE = Rule("pool_before_concat", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
