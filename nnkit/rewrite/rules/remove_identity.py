"""Remove ops that hand on their input unchanged.

Pattern: Identity; Dropout in inference; Cast to the type it has; Reshape, Flatten, Squeeze, Unsqueeze, Expand,
Tile and Transpose that keep the shape (a Transpose must also keep the order of axes longer than 1); Pad by
nothing; Slice of everything; Concat, Sum, Max, Min or Mean of one input; Clip without bounds; MaxPool or
AveragePool with a 1x1 window, stride 1 and no padding; Resize to the size it has.
Algebra: f(x) = x, so every reader of f(x) reads x.
Declines where x cannot take over the name of a network output, or the `_hp` tag of the op (x is a network input).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import clip_bounds, data_input, int_of, ints_of, is_op, operand, scalar_of, window_of
from nnkit.rewrite.rule import Declined, Nodes, Rule
from nnkit.rewrite.rules.normalize_resize import nearest_sources

if TYPE_CHECKING:
    import onnx_ir as ir

_SAME_SHAPE_SUFFICES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Tile")


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if not node.domain and _hands_on_its_input(editor, node) else None


def _hands_on_its_input(editor: Editor, node: ir.Node) -> bool:
    if node.op_type == "Identity":
        return True
    if node.op_type == "Dropout":
        mask_read = len(node.outputs) > 1 and (node.outputs[1].uses() or node.outputs[1].is_graph_output())
        return not mask_read and (operand(node, 2) is None or scalar_of(editor, operand(node, 2)) == 0.0)
    if node.op_type in ("Concat", "Sum", "Max", "Min", "Mean"):
        return len(node.inputs) == 1
    if node.op_type == "Clip":
        return clip_bounds(editor, node) == (-np.inf, np.inf)
    if node.op_type == "Cast":
        source = data_input(node)
        return source.dtype is not None and int_of(node, "to", 0) == int(source.dtype)
    if not node.inputs or editor.shape(data_input(node)) != editor.shape(node.outputs[0]):
        return False
    return node.op_type in _SAME_SHAPE_SUFFICES or _same_order(editor, node)


def _same_order(editor: Editor, node: ir.Node) -> bool:
    """For ops that may keep the shape and still change the values."""
    shape = editor.shape(data_input(node))
    if node.op_type == "Transpose":
        order = ints_of(node, "perm", tuple(reversed(range(len(shape)))))
        kept = [axis for axis in order if shape[axis] > 1]
        return kept == sorted(kept)
    if node.op_type == "Pad":
        widths = editor.array(operand(node, 1))
        return widths is not None and not widths.any()
    if node.op_type == "Slice":
        steps = editor.array(operand(node, 4))
        return operand(node, 4) is None or (steps is not None and bool(np.all(steps == 1)))
    if is_op(node, "MaxPool", "AveragePool"):
        window = window_of(editor, node)
        only = len(node.outputs) == 1
        return (
            only
            and window is not None
            and window.kernel == (1, 1)
            and window.strides == (1, 1)
            and not any(window.pads)
        )
    if node.op_type == "Resize":
        return _samples_every_element_once(editor, node)
    return False


def _samples_every_element_once(editor: Editor, node: ir.Node) -> bool:
    sources = nearest_sources(editor, node)
    return not isinstance(sources, Declined) and all(np.array_equal(s, np.arange(s.size)) for s in sources)


def _check(editor: Editor, nodes: Nodes) -> ir.Node | Declined:
    (node,) = nodes
    source, result = data_input(node), node.outputs[0]
    if result.is_graph_output() and (source.producer() is None or source.is_graph_output()):
        kind = "an output" if source.is_graph_output() else "an input or a constant"
        return Declined(f"it gives the network output '{result.name}' its name, and '{source.name}' is {kind} itself")
    if editor.is_hp(node) and source.producer() is None:
        return Declined("it is tagged `_hp`, and there is no op before it to take the tag over")
    return node


def _rewrite(editor: Editor, node: ir.Node) -> None:
    source = data_input(node)
    if source.producer() is not None:
        editor.move_tags(node, source)
    editor.redirect(node.outputs[0], source)
    editor.remove(node)


RULE = Rule("remove_identity", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
