"""Write out the repetition of a computed value along any axes, for arithmetic whose operands have one shape.

Pattern: Add or Mul of two computed values of different shapes, except Mul of a map and one number for each of its
channels; and an Expand of a computed value.
Algebra: of p elements repeated n times along axes behind the others a nearest Resize of [1, p, 1, 1] makes
  [1, p, 1, n]; along axes before or between the others a 1x1 convolution of n weights of 1 makes [1, n, p, 1] of
  [1, 1, p, 1], whose axes a Transpose brings into their order.
Declines for integers, such as ids of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
_WHOLE_NUMBERS = ("INT64", "INT32", "UINT8", "INT8", "BOOL")


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    shape: tuple[int, ...]  # of the result


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Add", "Mul", "Expand") or editor.mark(node) is not None or editor.is_cpu(node):
        return None
    values = _operands(node)
    if any(editor.array(value) is not None for value in values):
        return None
    shape, shapes = editor.shape(node.outputs[0]), [editor.shape(value) for value in values]
    if all(each == shape for each in shapes):
        return None
    factors = is_op(node, "Mul") and len(shape) == 4 and shape[0] == 1 and (1, shape[1], 1, 1) in shapes
    return None if factors and shape in shapes else (node,)


def _operands(node: ir.Node) -> list[ir.Value]:
    if is_op(node, "Expand"):
        return [data_input(node)]
    return [value for value in node.inputs if value is not None]


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    if any(value.dtype is not None and value.dtype.name in _WHOLE_NUMBERS for value in _operands(node)):
        raise Refused("it repeats integers")
    return _Match(node, editor.shape(node.outputs[0]))


def _rewrite(editor: Editor, match: _Match) -> None:
    node, name = match.node, editor.layer(match.node)
    made: list[ir.Value] = []
    inputs = []
    for number, value in enumerate(_operands(node)):
        if editor.shape(value) != match.shape:
            value = _repeated(editor, match, value, f"{name}_repeated{number or ''}", made)
        inputs.append(value)
    editor.copy_tags(node, made)
    if is_op(node, "Expand"):
        editor.become(node, "Identity", inputs, {})
    else:
        editor.set_inputs(node, inputs)


def _repeated(editor: Editor, match: _Match, value: ir.Value, name: str, made: list[ir.Value]) -> ir.Value:
    """The value as often as the result's shape has it. made: takes what is computed on the way."""
    node, shape, given = match.node, match.shape, editor.shape(value)
    padded = (1,) * (len(shape) - len(given)) + given
    repeated = [axis for axis in range(len(shape)) if padded[axis] != shape[axis]]
    kept = [axis for axis in range(len(shape)) if axis not in repeated and shape[axis] > 1]
    if not repeated:  # axes of one in front
        return reshaped(editor, node, value, shape, f"{name}_shaped")
    times, elements = prod(shape[axis] for axis in repeated), prod(given)
    if not kept or max(kept) < min(repeated):
        value = reshaped(editor, node, value, (1, elements, 1, 1), f"{name}_column")
        scales = editor.constant(f"{name}.scales", np.array([1, 1, 1, times], np.float32))
        wide = (1, elements, 1, times)
        value = editor.insert(node, "Resize", [value, None, scales], _NEAREST, shape=wide, name=name)
        made.append(value)
        return reshaped(editor, node, value, shape, f"{name}_shaped")
    value = reshaped(editor, node, value, (1, 1, elements, 1), f"{name}_row")
    ones = editor.constant(f"{name}.weight", np.ones((times, 1, 1, 1), np.float32))
    attributes = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4}
    value = editor.insert(node, "Conv", [value, ones], attributes, shape=(1, times, elements, 1), name=name)
    made.append(value)
    order = [*repeated, *kept]
    if order == sorted(order):
        return reshaped(editor, node, value, shape, f"{name}_shaped")
    lengths = tuple(shape[axis] for axis in order)
    value = reshaped(editor, node, value, (1, *lengths), f"{name}_axes")
    back = [0, *(1 + order.index(axis) for axis in sorted(order))]
    turned = (1, *(shape[axis] for axis in sorted(order)))
    value = editor.insert(node, "Transpose", [value], {"perm": back}, shape=turned, name=f"{name}_order")
    made.append(value)
    return reshaped(editor, node, value, shape, f"{name}_shaped")


RULE = Rule("broadcast_to_conv", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
