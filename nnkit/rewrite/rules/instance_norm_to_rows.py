"""Make the normalisation of each channel that of the rows of a matrix.

Pattern: InstanceNormalization with constant scale and bias, as group normalisation is exported too.
Algebra: over [1, C, H W] it is LayerNormalization along the last axis, then s_c x_c + t_c.
Declines for computed scales.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op, operand
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "InstanceNormalization") else None


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    (node,) = nodes
    if editor.array(operand(node, 1)) is None or editor.array(operand(node, 2)) is None:
        raise Refused("its scale or bias is computed")
    return node


def _rewrite(editor: Editor, node: ir.Node) -> None:
    name, value = editor.layer(node), data_input(node)
    shape = editor.shape(value)
    rows = (*shape[:2], prod(shape[2:]))
    flat = reshaped(editor, node, value, rows, f"{name}_rows")
    ones = editor.constant(f"{name}.ones", np.ones(rows[2], np.float32))
    attributes = {"axis": -1, "epsilon": as_node(node).number("epsilon", 1e-5)}
    normal = editor.insert(node, "LayerNormalization", [flat, ones], attributes, shape=rows, name=f"{name}_normal")
    gain, offset = (np.asarray(editor.array(operand(node, index))) for index in (1, 2))
    if np.all(gain == 1) and not np.any(offset):
        editor.copy_tags(node, [normal])
        editor.become(node, "Reshape", [normal, editor.constant(f"{name}.shape", np.array(shape, np.int64))], {})
        return
    back = reshaped(editor, node, normal, shape, f"{name}_back")
    broad = [-1, *[1] * (len(shape) - 2)]
    scale = editor.constant(f"{name}.scale", gain.reshape(broad))
    bias = editor.constant(f"{name}.bias", offset.reshape(broad))
    scaled = editor.insert(node, "Mul", [back, scale], {}, shape=shape, name=f"{name}_scaled")
    editor.copy_tags(node, [normal, scaled])
    editor.become(node, "Add", [scaled, bias], {})


RULE = Rule("instance_norm_to_rows", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
