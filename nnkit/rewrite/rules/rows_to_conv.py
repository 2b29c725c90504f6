"""Make a product of many rows with a constant matrix a 1x1 convolution.

Pattern: MatMul of a value with several rows, [..., R, K], with constants [K, N], or Gemm; and an Add of N constants
behind a MatMul.
Algebra: as [1, K, rows, 1] the value's columns are channels: y = conv(x^T, W^T as [N, K, 1, 1])^T.
Declines where the matrix is computed, or has more than two dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.fully_connected import read_fully_connected
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, operand, read
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class _Match:
    node: ir.Node
    add: ir.Node | None
    weight: NDArray[np.float32]  # [N, K]
    bias: NDArray[np.float32] | None


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "MatMul", "Gemm") or editor.array(operand(node, 1)) is None:
        return None
    return (node,) if prod(editor.shape(data_input(node))[:-1]) > 1 else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    if is_op(node, "Gemm"):
        layer = read(editor, node, read_fully_connected)
        if layer.data_transposed:
            raise Refused("it reads its rows as columns")
        bias = layer.bias(np.float32)
        return _Match(node, None, layer.weight(np.float32), bias)
    weight = editor.array(operand(node, 1))
    if weight is None or weight.ndim != 2:
        raise Refused("its matrix has other than two dimensions")
    add = editor.only_user(node.outputs[0])
    bias = None
    if add is not None and is_op(add, "Add"):
        bias = next((array for value in add.inputs if (array := editor.array(value)) is not None), None)
    if bias is None or bias.size != weight.shape[1] or bias.shape[-1:] != weight.shape[1:]:
        return _Match(node, None, weight.T, None)
    return _Match(node, add, weight.T, bias.reshape(-1))


def _rewrite(editor: Editor, match: _Match) -> None:
    node, last = match.node, match.add or match.node
    name, value = editor.layer(node), data_input(node)
    *_, inputs = editor.shape(value)
    rows, outputs = prod(editor.shape(value)[:-1]), len(match.weight)
    swap = {"perm": [0, 2, 1, 3]}
    flat = reshaped(editor, node, value, (1, rows, inputs, 1), f"{name}_rows")
    turned = editor.insert(node, "Transpose", [flat], swap, shape=(1, inputs, rows, 1), name=f"{name}_columns")
    constants = [editor.constant(f"{name}.weight", match.weight[:, :, None, None])]
    if match.bias is not None:
        constants.append(editor.constant(f"{name}.bias", match.bias))
    product = editor.insert(
        node,
        "Conv",
        [turned, *constants],
        {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4},
        shape=(1, outputs, rows, 1),
        name=f"{name}_conv",
    )
    back = editor.insert(node, "Transpose", [product], swap, shape=(1, rows, outputs, 1), name=f"{name}_back")
    editor.move_tags(node, product)
    if match.add is not None:
        editor.move_tags(match.add, product)
    target = editor.constant(f"{name}.shape", np.array(editor.shape(last.outputs[0]), np.int64))
    editor.become(last, "Reshape", [back, target], {})
    if match.add is not None:
        editor.remove(node)


RULE = Rule("rows_to_conv", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
