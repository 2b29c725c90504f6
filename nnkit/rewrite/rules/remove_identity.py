"""Remove ops that hand on their input unchanged.

Pattern: Identity; Dropout in inference; Cast to the type it has; Reshape, Flatten, Squeeze, Unsqueeze, Expand,
Tile and Transpose that keep the shape (a Transpose must also keep the order of axes longer than 1); Pad by
nothing; Slice of everything; Concat, Sum, Max, Min or Mean of one input; Clip without bounds; MaxPool or
AveragePool with a 1x1 window, stride 1 and no padding; Resize to the size it has, in any mode; x + 0, 0 + x,
x - 0, x * 1, 1 * x and x / 1, where the constant is all zeros or ones, of any shape that does not widen x.
Algebra: f(x) = x, so every reader of f(x) reads x.
Declines where x cannot take over the name of a network output, or the `_hp` tag of the op (x is a network input).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.clip import read_clip
from nnkit.graph.read.pad import read_pad
from nnkit.graph.read.pool import read_pool
from nnkit.graph.read.resize import COORDINATES, read_resize
from nnkit.graph.read.slice import read_slice
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import as_node, data_input, is_op, operand, read_or_none, scalar_of
from nnkit.rewrite.reshaping import keeps_order
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_NEUTRAL = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}
"""The constant by which an op leaves its other operand as it is. Only Add and Mul may have it in front."""

_SAME_SHAPE_SUFFICES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile")


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if not node.domain and _hands_on_its_input(editor, node) else None


def _handed_on(editor: Editor, node: ir.Node) -> ir.Value:
    """The input that the node's result equals; of an Add or Mul, the operand that is not the neutral constant."""
    if is_op(node, "Add", "Mul"):
        second = operand(node, 1)
        if second is not None and not _is_neutral(editor, node, second):
            return second
    return data_input(node)


def _is_neutral(editor: Editor, node: ir.Node, value: ir.Value | None) -> bool:
    return scalar_of(editor, value) == _NEUTRAL[str(node.op_type)]


def _hands_on_its_input(editor: Editor, node: ir.Node) -> bool:
    if node.op_type == "Identity":
        return True
    if node.op_type == "Dropout":
        mask_read = len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output())
        return not mask_read and (operand(node, 2) is None or scalar_of(editor, operand(node, 2)) == 0.0)
    if node.op_type in ("Concat", "Sum", "Max", "Min", "Mean"):
        return len(node.inputs) == 1
    if node.op_type == "Clip":
        clip = read_or_none(editor, node, read_clip)
        return clip is not None and (clip.low, clip.high) == (-np.inf, np.inf)
    if node.op_type == "Cast":
        source = data_input(node)
        return source.dtype is not None and as_node(node).integer("to", 0) == int(source.dtype)
    if node.op_type in _NEUTRAL:
        source = _handed_on(editor, node)
        others = [value for value in node.inputs if value is not source]
        same_shape = editor.shape(source) == editor.shape(node.outputs[0])
        return same_shape and len(others) == 1 and _is_neutral(editor, node, others[0])
    if not node.inputs or editor.shape(data_input(node)) != editor.shape(node.outputs[0]):
        return False
    return node.op_type in _SAME_SHAPE_SUFFICES or _same_order(editor, node)


def _same_order(editor: Editor, node: ir.Node) -> bool:
    """For ops that may keep the shape and still change the values."""
    if node.op_type == "Transpose":
        return keeps_order(editor, node)
    if node.op_type == "Pad":
        pad = read_or_none(editor, node, read_pad)
        return pad is not None and not any((*pad.before, *pad.after))
    if node.op_type == "Slice":
        cut = read_or_none(editor, node, read_slice)
        return cut is not None and set(cut.steps) == {1}
    if is_op(node, "MaxPool", "AveragePool"):
        pool = read_or_none(editor, node, read_pool)
        window = None if pool is None else pool.window
        return window is not None and window.kernel == (1, 1) and window.strides == (1, 1) and not any(window.pads)
    if node.op_type == "Resize":
        resize = read_or_none(editor, node, read_resize)
        return resize is not None and resize.coordinates in COORDINATES
    return False


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    (node,) = nodes
    source, result = _handed_on(editor, node), node.outputs[0]
    if result.is_graph_output() and (source.producer() is None or source.is_graph_output()):
        kind = "an output" if source.is_graph_output() else "an input or a constant"
        raise Refused(f"it gives the network output '{result.name}' its name, and '{source.name}' is {kind} itself")
    if editor.is_hp(node) and source.producer() is None:
        raise Refused("it is tagged `_hp`, and there is no op before it to take the tag over")
    return node


def _rewrite(editor: Editor, node: ir.Node) -> None:
    source = _handed_on(editor, node)
    if source.producer() is not None:
        editor.move_tags(node, source)
    editor.redirect(node.outputs[0], source)
    editor.remove(node)


RULE = Rule("remove_identity", True, "blocks", __doc__ or "", _pattern, _check, _rewrite, whole_numbers=True)
