"""Make a product with several constant matrices, or with one in front, a grouped 1x1 convolution.

Pattern: MatMul of a computed value of three axes or more with constants: behind it, of more than one matrix
  [..., K, N]; or in front of it, [..., M, K].
Algebra: with the inner axis of every matrix as channels of a group, y_g = W_g x_g, where W_g is the constant matrix
  in front, or that behind transposed; a value of one matrix is read by all as by one group.
Why: the constant queries of a decoder (DETR), weights of every head of its own.
Declines where the value has matrices for some of the constant's batch axes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class _Match:
    node: ir.Node
    value: ir.Value
    behind: bool  # whether the constant is
    groups: int
    weight: NDArray[np.float32]  # [matrices, O, K]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "MatMul"):
        return None
    front, behind = (editor.array(value) for value in node.inputs)
    if (front is None) == (behind is None):
        return None
    value = node.inputs[behind is None]
    several = behind is None or prod(behind.shape[:-2]) > 1
    return (node,) if several and value is not None and len(editor.shape(value)) > 2 else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    front, behind = (editor.array(value) for value in node.inputs)
    constant, value = (front, node.inputs[1]) if front is not None else (behind, node.inputs[0])
    if constant is None or value is None or constant.ndim < 2:
        raise Refused("its constant is a row")
    batch = editor.shape(node.outputs[0])[:-2]
    groups = prod(editor.shape(value)[:-2])
    if groups not in (1, prod(batch)):
        raise Refused("its value has matrices for some of the constant's batch axes alone")
    every = np.broadcast_to(constant, (*batch, *constant.shape[-2:])).reshape(-1, *constant.shape[-2:])
    weight = every if front is not None else every.transpose(0, 2, 1)
    return _Match(node, value, front is None, groups, np.ascontiguousarray(weight, np.float32))


def _rewrite(editor: Editor, match: _Match) -> None:
    node, value, name = match.node, match.value, editor.layer(match.node)
    matrices, outputs, inner = match.weight.shape
    shape, result = editor.shape(value), editor.shape(node.outputs[0])
    columns = shape[-2] if match.behind else shape[-1]
    if match.behind:
        value = _turned(editor, node, value, shape, f"{name}_columns")
    channels = reshaped(editor, node, value, (1, match.groups * inner, columns, 1), f"{name}_channels")
    weight = editor.constant(f"{name}.weight", match.weight.reshape(matrices * outputs, inner, 1, 1))
    how = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4, "group": match.groups}
    after = (1, matrices * outputs, columns, 1)
    product = editor.insert(node, "Conv", [channels, weight], how, shape=after, name=f"{name}_conv")
    editor.move_tags(node, product)
    if not match.behind:
        target = editor.constant(f"{name}.shape", np.array(result, np.int64))
        editor.become(node, "Reshape", [product, target], {})
        return
    back = reshaped(editor, node, product, (*result[:-2], outputs, columns), f"{name}_back")
    editor.become(node, "Transpose", [back], {"perm": _last_two_swapped(len(result))})


def _turned(editor: Editor, node: ir.Node, value: ir.Value, shape: tuple[int, ...], name: str) -> ir.Value:
    order = _last_two_swapped(len(shape))
    turned = tuple(shape[axis] for axis in order)
    return editor.insert(node, "Transpose", [value], {"perm": order}, shape=turned, name=name)


def _last_two_swapped(axes: int) -> list[int]:
    return [*range(axes - 2), axes - 1, axes - 2]


RULE = Rule("matrices_to_conv", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
