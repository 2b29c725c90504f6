"""Make arithmetic with any constants one depthwise 1x1 convolution: the last resort for what is not per channel.

Pattern: a chain of Mul, Div, Add, Sub with constants of any shape that do not widen the value.
Algebra: s x + t, element by element. With the longest end of the axes over which s and t are the same as rows, and
  all axes before as channels, [1, p, q, r], it is a convolution with groups = p, weights s and bias t.
Declines when a constant widens the value, and for quotients whose divisor is computed.
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
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class _Match:
    chain: tuple[ir.Node, ...]
    value: ir.Value
    scale: NDArray[np.float64]
    shift: NDArray[np.float64]


def _data(editor: Editor, node: ir.Node) -> ir.Value | None:
    """The one computed operand of arithmetic with a constant."""
    if not is_op(node, "Mul", "Div", "Add", "Sub"):
        return None
    computed = [value for value in node.inputs if value is not None and editor.array(value) is None]
    if len(computed) != 1 or (is_op(node, "Div") and node.inputs[1] is computed[0]):
        return None
    return computed[0]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if _data(editor, node) is not None else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    value = _data(editor, nodes[0])
    if value is None:
        raise Refused("it has no constant")
    shape = editor.shape(value)
    scale, shift = _step(editor, nodes[0], np.ones(shape), np.zeros(shape))
    chain = [nodes[0]]
    while (after := editor.only_user(chain[-1].outputs[0])) is not None and _data(editor, after) is not None:
        if editor.shape(after.outputs[0]) != shape or editor.is_cpu(after) or editor.is_cpu(chain[-1]):
            break
        scale, shift = _step(editor, after, scale, shift)
        chain.append(after)
    return _Match(tuple(chain), value, scale, shift)


def _step(
    editor: Editor, node: ir.Node, scale: NDArray[np.float64], shift: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The map of scale x + shift that the node makes of it."""
    if editor.shape(node.outputs[0]) != scale.shape:
        raise Refused("its constant widens the value")
    first = editor.array(node.inputs[0])
    constant = np.asarray(editor.array(node.inputs[1]) if first is None else first, np.float64)
    if is_op(node, "Mul"):
        return scale * constant, shift * constant
    if is_op(node, "Div"):
        if not np.all(constant):
            raise Refused("it divides by zero")
        return scale / constant, shift / constant
    if is_op(node, "Add"):
        return scale, shift + constant
    return (scale, shift - constant) if first is None else (-scale, constant - shift)


def _rewrite(editor: Editor, match: _Match) -> None:
    shape = match.scale.shape
    rows = len(shape)
    while rows > 1 and all(_same_along(each, rows - 1) for each in (match.scale, match.shift)):
        rows -= 1
    channels = prod(shape[:rows])
    first, last = match.chain[0], match.chain[-1]
    name = editor.layer(last)
    columns = shape[-1] if rows < len(shape) else 1
    flat = (1, channels, prod(shape[rows:]) // columns, columns)
    picked = (slice(None),) * rows + (0,) * (len(shape) - rows)
    inputs = [
        reshaped(editor, first, match.value, flat, f"{name}_input"),
        editor.constant(f"{name}.weight", match.scale[picked].astype(np.float32).reshape(-1, 1, 1, 1)),
        editor.constant(f"{name}.bias", match.shift[picked].astype(np.float32).reshape(-1)),
    ]
    attributes = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0, 0, 0, 0], "group": channels}
    result = compute_then_reshape(editor, last, "Conv", inputs, attributes, shape=flat, label="conv")
    for node in reversed(match.chain[:-1]):
        editor.move_tags(node, result)
        editor.remove(node)


def _same_along(array: NDArray[np.float64], axis: int) -> bool:
    return bool(np.all(array == array.take([0], axis)))


RULE = Rule("constants_to_conv", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
