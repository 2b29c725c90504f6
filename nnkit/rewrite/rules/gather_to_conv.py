"""Pick elements along an axis by a 1x1 convolution of zeros and ones, for indices that step unevenly.

Pattern: Gather of a computed value with constant indices, as interpolation of one dimension and permuted channels
have it.
Algebra: with the axis as channels, [1, n, p, s], output i is the sum of all inputs times 1 for the one that index i
  names and 0 for the others; Transposes bring the axis there and back.
Declines for integers, such as ids of tokens, and indices beyond the axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_FLOATS = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")


@dataclass(frozen=True, eq=False)
class _Match:
    node: ir.Node
    axis: int
    picked: NDArray[np.int64]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Gather") or editor.array(data_input(node)) is not None:
        return None
    return (node,) if editor.array(node.inputs[1]) is not None else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    value, indices = data_input(node), editor.array(node.inputs[1])
    if value.dtype is not None and value.dtype.name not in _FLOATS:
        raise Refused("it picks integers")
    shape = editor.shape(value)
    axis = as_node(node).integer("axis", 0) % len(shape)
    picked = np.asarray(indices, np.int64).reshape(-1)
    picked = np.where(picked < 0, picked + shape[axis], picked)
    if picked.size == 0 or picked.min() < 0 or picked.max() >= shape[axis]:
        raise Refused(f"its indices go beyond the {shape[axis]} elements of axis {axis}")
    return _Match(node, axis, picked)


def _rewrite(editor: Editor, match: _Match) -> None:
    node, name, value = match.node, editor.layer(match.node), data_input(match.node)
    shape = editor.shape(value)
    before, length, after = prod(shape[: match.axis]), shape[match.axis], prod(shape[match.axis + 1 :])
    matrix = np.zeros((match.picked.size, length, 1, 1), np.float32)
    matrix[np.arange(match.picked.size), match.picked] = 1.0
    order = {"perm": [0, 2, 1, 3]}
    value = reshaped(editor, node, value, (1, before, length, after), f"{name}_axes")
    if before > 1:
        turned = (1, length, before, after)
        value = editor.insert(node, "Transpose", [value], order, shape=turned, name=f"{name}_first")
        editor.copy_tags(node, [value])
    else:
        value = reshaped(editor, node, value, (1, length, 1, after), f"{name}_channels")
    inputs = [value, editor.constant(f"{name}.weight", matrix)]
    attributes = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4}
    made = (1, match.picked.size, before, after)
    if before == 1:
        compute_then_reshape(editor, node, "Conv", inputs, attributes, shape=made, label="picked")
        return
    value = editor.insert(node, "Conv", inputs, attributes, shape=made, name=f"{name}_picked")
    editor.copy_tags(node, [value])
    back = (1, before, match.picked.size, after)
    compute_then_reshape(editor, node, "Transpose", [value], order, shape=back, label="order")


RULE = Rule("gather_to_conv", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
