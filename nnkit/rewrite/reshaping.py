"""Ops that only change the shape: telling them, and putting a Reshape before or behind another op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnkit.graph.read.reshape import RESHAPE_OPS
from nnkit.graph.read.transpose import read_transpose
from nnkit.rewrite.reading import data_input, is_op, read

if TYPE_CHECKING:
    import onnx_ir as ir

    from nnkit.rewrite.editor import Editor


def keeps_order(editor: Editor, node: ir.Node) -> bool:
    """Whether `node` gives its input's elements in the same order, in whatever shape."""
    if is_op(node, *RESHAPE_OPS):
        return True
    if not is_op(node, "Transpose"):
        return False
    shape = editor.shape(data_input(node))
    long_axes = [axis for axis in read(editor, node, read_transpose).order if shape[axis] > 1]
    return long_axes == sorted(long_axes)


def reshaped(editor: Editor, before: ir.Node, value: ir.Value, shape: tuple[int, ...], name: str) -> ir.Value:
    """`value` in another shape, through a new Reshape in front of `before`."""
    target = editor.constant(f"{name}.shape", np.array(shape, np.int64))
    return editor.insert(before, "Reshape", [value, target], {}, shape=shape, name=name)


def compute_then_reshape(
    editor: Editor,
    node: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    attributes: Mapping[str, Any],
    *,
    shape: tuple[int, ...],
    label: str,
) -> ir.Value:
    """A new op in front of `node` does its work; `node` becomes the Reshape of the op's result to its own.

    The new op takes over the layer's name and tags.

    Args:
        shape: of the new op's result, which is returned.
        label: what the result is called behind the layer's name.
    """
    name = editor.layer(node)
    result = editor.insert(node, op_type, inputs, attributes, shape=shape, name=f"{name}_{label}")
    editor.move_tags(node, result)
    editor.take_layer_name(result, node, "_output")
    target = editor.constant(f"{name}.shape", np.array(editor.shape(node.outputs[0]), np.int64))
    editor.become(node, "Reshape", [result, target], {})
    return result
