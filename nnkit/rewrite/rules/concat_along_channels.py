"""Concatenate along the channels what is concatenated along another axis.

Pattern: Concat along another axis than 1 of values with batch 1.
Algebra: with axes between the batch and that axis all of length 1, the values with that axis first are the same in
  element order: Reshape, Concat along axis 1, Reshape. Otherwise a Transpose brings the axis forward, and one back.
Declines for the batch axis, and for constants among the values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.concat import read_concat
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op, read
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "Concat") and read(editor, node, read_concat).axis != 1 else None


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    (node,) = nodes
    if read(editor, node, read_concat).axis == 0 or editor.shape(node.outputs[0])[0] != 1:
        raise Refused("it joins along the batch, or has a batch of several")
    if any(editor.array(value) is not None for value in node.inputs):
        raise Refused("some of it is constant")
    return node


def _rewrite(editor: Editor, node: ir.Node) -> None:
    name, axis = editor.layer(node), read(editor, node, read_concat).axis
    result = node.outputs[0]
    shape = editor.shape(result)
    values = [value for value in node.inputs if value is not None]
    if set(shape[1:axis]) == {1}:
        flat = [(1, editor.shape(value)[axis], *shape[axis + 1 :]) for value in values]
        parts = [
            reshaped(editor, node, value, part, f"{name}_part") for value, part in zip(values, flat, strict=True)
        ]
        joined_shape = (1, shape[axis], *shape[axis + 1 :])
    else:
        order = [0, axis, *(i for i in range(1, len(shape)) if i != axis)]
        parts = [_turned(editor, node, value, order, f"{name}_part") for value in values]
        joined_shape = tuple(shape[i] for i in order)
    joined = editor.insert(node, "Concat", parts, {"axis": 1}, shape=joined_shape, name=f"{name}_joined")
    editor.copy_tags(node, [*parts, joined])
    if set(shape[1:axis]) == {1}:
        editor.become(node, "Reshape", [joined, editor.constant(f"{name}.shape", np.array(shape, np.int64))], {})
    else:
        editor.become(node, "Transpose", [joined], {"perm": [order.index(i) for i in range(len(shape))]})


def _turned(editor: Editor, node: ir.Node, value: ir.Value, order: list[int], name: str) -> ir.Value:
    shape = editor.shape(value)
    return editor.insert(node, "Transpose", [value], {"perm": order}, shape=[shape[i] for i in order], name=name)


RULE = Rule("concat_along_channels", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
