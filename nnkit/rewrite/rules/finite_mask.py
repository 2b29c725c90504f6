"""Make the mask of attention finite: what it blocks gets a number below all others instead of -infinity.

Pattern: a Softmax of x + m, where elements of the constant m are -1000 or less; or of Where(c, x, m) or
Where(c, m, x) with constant c and m.
Algebra: exp(-1000) is 0 in float32, so only that blocked elements stay far below the others counts: where m blocks,
  the least number of the row less 24 stands for x + m, as exp(-24) is far below float32's rounding. With k = 0 where
  m blocks, else 1: k (x + m) + (1 - k) (min x - 24), and min x = -max(-x). So formats need no room for large numbers.
Declines where a row is blocked whole.
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
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_BLOCKS = -1000.0
_BELOW = 24.0  # exp(-24) = 4e-11


@dataclass(frozen=True, eq=False)
class Match:
    softmax: ir.Node
    node: ir.Node  # that puts the mask on
    value: ir.Value
    blocked: NDArray[np.bool_]
    added: NDArray[np.float32] | None  # where nothing is blocked, 0 elsewhere
    axis: int


def pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Softmax"):
        return None
    masking = editor.producer(data_input(node), "Add", "Where")
    if masking is None or editor.is_cpu(masking) or editor.only_user(masking.outputs[0]) is not node:
        return None
    given = _blocked(editor, masking)
    return (node, masking) if given is not None and given.any() else None


def _blocked(editor: Editor, masking: ir.Node) -> NDArray[np.bool_] | None:
    """Which elements the mask blocks; None where it is computed."""
    shape = editor.shape(masking.outputs[0])
    arrays = [editor.array(value) for value in masking.inputs]
    if is_op(masking, "Add"):
        masks = [array for array in arrays if array is not None]
        return np.broadcast_to(masks[0] <= _BLOCKS, shape) if len(masks) == 1 else None
    condition, yes, no = arrays
    if condition is None or (yes is None) == (no is None):
        return None
    constant = condition if yes is not None else ~condition
    low = (yes if yes is not None else no) <= _BLOCKS  # type: ignore[operator]
    return np.broadcast_to(constant & low, shape)


def check(editor: Editor, nodes: Nodes) -> Match:
    softmax, node = nodes
    blocked, shape = _blocked(editor, node), editor.shape(node.outputs[0])
    axis = as_node(softmax).integer("axis", -1) % len(shape)
    if blocked is None or blocked.all(axis=axis).any():
        raise Refused("its mask blocks whole rows")
    operands = node.inputs if is_op(node, "Add") else node.inputs[1:]
    (value,) = (each for each in operands if each is not None and editor.array(each) is None)
    (mask,) = (array for array in map(editor.array, operands) if array is not None)
    added = None
    if is_op(node, "Add"):
        left = np.where(mask <= _BLOCKS, np.zeros_like(mask), mask)
        added = left if left.any() else None
    elif not np.array_equal(blocked, np.broadcast_to(_chosen(editor, node), shape)):
        raise Refused("it chooses between several constants")
    if editor.shape(value) != shape:
        raise Refused("its mask widens the value")
    return Match(softmax, node, value, blocked, added, axis)


def _chosen(editor: Editor, node: ir.Node) -> NDArray[np.bool_]:
    """Where a choice takes its constant."""
    condition = np.asarray(editor.array(node.inputs[0]), bool)
    return condition if editor.array(node.inputs[1]) is not None else ~condition


def rewrite(editor: Editor, match: Match, *, raised: bool = False) -> None:
    """raised: what stays is raised instead (`mask_above_zero`)."""
    node, name, value = match.node, editor.layer(match.node), match.value
    shape = editor.shape(value)
    before, after, length = prod(shape[: match.axis]), prod(shape[match.axis + 1 :]), shape[match.axis]
    row = tuple(1 if axis == match.axis else size for axis, size in enumerate(shape))
    kept = 1.0 - match.blocked.astype(np.float32)
    made: list[ir.Value] = []

    def insert(op: str, inputs: list[ir.Value], shape: tuple[int, ...], label: str) -> ir.Value:
        window = {"kernel_shape": [length, 1], "strides": [1, 1], "pads": [0] * 4}
        attributes = window if op == "MaxPool" else {}
        made.append(editor.insert(node, op, [*inputs], attributes, shape=shape, name=f"{name}_{label}"))
        return made[-1]

    def constant(label: str, array: NDArray[np.floating] | float) -> ir.Value:
        return editor.constant(f"{name}.{label}", np.asarray(array, np.float32))

    if match.added is not None:
        value = insert("Add", [value, constant("added", match.added)], shape, "added")
    negative = insert("Mul", [value, constant("minus_one", -1.0)], shape, "negative")
    least = reshaped(editor, node, negative, (1, before, length, after), f"{name}_rows")
    least = insert("MaxPool", [least], (1, before, 1, after), "least")
    least = reshaped(editor, node, least, row, f"{name}_of_rows")
    if raised:
        above = insert("Add", [value, least], shape, "above")
        above = insert("Add", [above, constant("below", _BELOW)], shape, "raised")
        masked = insert("Mul", [above, constant("free", kept)], shape, "finite")
    else:
        sizes = editor.constant(f"{name}.sizes", np.array(shape, np.int64))
        least = insert("Expand", [least, sizes], shape, "row")
        least = insert("Mul", [least, constant("blocked", kept - 1.0)], shape, "blocked")
        low = insert("Add", [least, constant("below", _BELOW * (kept - 1.0))], shape, "low")
        free = insert("Mul", [value, constant("free", kept)], shape, "free")
        masked = insert("Add", [free, low], shape, "finite")  # under a name of its own: its numbers are others
    editor.copy_tags(node, made[:-1])
    editor.move_tags(node, masked)
    editor.set_inputs(match.softmax, [masked])
    editor.remove(node)


RULE = Rule("finite_mask", True, "blocks", __doc__ or "", pattern, check, rewrite)
