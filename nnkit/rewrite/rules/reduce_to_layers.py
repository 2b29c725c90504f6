"""Make means, sums, extremes and lengths over neighbouring axes pools and convolutions.

Pattern: ReduceMean, ReduceSum, ReduceMax, ReduceMin, ReduceSumSquare or ReduceL2 over axes that lie side by side.
Algebra: the axes before as channels, those reduced as rows and those behind as columns, [1, p, r, s]: AveragePool or
  MaxPool of r x 1; a sum is a depthwise convolution with r x 1 ones. Beyond 31 rows the columns are channels too, so
  that the window is all of its map. Squares are summed, and of a length the root is taken. min(x) = -max(-x).
Declines for other axes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from nnkit.graph.read.reduce import Reduce, read_reduce
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


_LONGEST = 31  # rows that every target's window has, where it is not all of its map
_OPS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL2")


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, *_OPS) else None


def _check(editor: Editor, nodes: Nodes) -> tuple[ir.Node, Reduce]:
    (node,) = nodes
    reduced = read(editor, node, read_reduce)
    shape = editor.shape(data_input(node))
    axes = [axis for axis in reduced.axes if shape[axis] > 1]
    if axes != [axis for axis in range(axes[0], axes[-1] + 1) if shape[axis] > 1] if axes else False:
        raise Refused(f"its axes {list(reduced.axes)} do not lie side by side")
    return node, reduced


def _rewrite(editor: Editor, match: tuple[ir.Node, Reduce]) -> None:
    node, reduced = match
    name, value = editor.layer(node), data_input(node)
    if reduced.function in ("l2", "sum_square"):
        _sum_squares(editor, node, root=reduced.function == "l2")
        return
    if reduced.function == "min":
        _as_maximum(editor, node)
        return
    shape = editor.shape(value)
    axes = [axis for axis in reduced.axes if shape[axis] > 1] or [1]
    first, last = axes[0], axes[-1]
    channels, rows, columns = prod(shape[:first]), prod(shape[first : last + 1]), prod(shape[last + 1 :])
    if not [axis for axis in reduced.axes if shape[axis] > 1]:
        channels, rows, columns = prod(shape), 1, 1
    value = reshaped(editor, node, value, (1, channels, rows, columns), f"{name}_input")
    if rows > _LONGEST and columns > 1:
        turned = (1, channels, columns, rows)
        value = editor.insert(node, "Transpose", [value], {"perm": [0, 1, 3, 2]}, shape=turned, name=f"{name}_turned")
        editor.copy_tags(node, [value])
        channels, columns = channels * columns, 1
        value = reshaped(editor, node, value, (1, channels, rows, columns), f"{name}_channels")
    inputs: list[Any] = [value]
    attributes: dict[str, Any] = {"kernel_shape": [rows, 1], "strides": [1, 1], "pads": [0] * 4}
    op_type = "MaxPool" if reduced.function == "max" else "AveragePool"
    if reduced.function == "sum":
        op_type, attributes["group"] = "Conv", channels
        inputs.append(editor.constant(f"{name}.ones", np.ones((channels, 1, rows, 1), np.float32)))
    compute_then_reshape(editor, node, op_type, inputs, attributes, shape=(1, channels, 1, columns), label="pool")


def _as_maximum(editor: Editor, node: ir.Node) -> None:
    """The maximum of the negatives, which is reduced next, and its negative."""
    name, value, others = editor.layer(node), data_input(node), node.inputs[1:]
    negative = editor.insert(node, "Neg", [value], {}, shape=editor.shape(value), name=f"{name}_negative")
    shape = editor.shape(node.outputs[0])
    attributes = dict(node.attributes)
    largest = editor.insert(node, "ReduceMax", [negative, *others], attributes, shape=shape, name=f"{name}_largest")
    editor.copy_tags(node, [negative, largest])
    editor.become(node, "Neg", [largest], {})


def _sum_squares(editor: Editor, node: ir.Node, *, root: bool) -> None:
    """The sum of squares, which is reduced next, and its root."""
    name, value, others = editor.layer(node), data_input(node), node.inputs[1:]
    square = editor.insert(node, "Mul", [value, value], {}, shape=editor.shape(value), name=f"{name}_squares")
    attributes = dict(node.attributes)
    if not root:
        editor.copy_tags(node, [square])
        editor.become(node, "ReduceSum", [square, *others], attributes)
        return
    shape = editor.shape(node.outputs[0])
    total = editor.insert(node, "ReduceSum", [square, *others], attributes, shape=shape, name=f"{name}_sum")
    editor.copy_tags(node, [square, total])
    editor.become(node, "Sqrt", [total], {})


RULE = Rule("reduce_to_layers", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
