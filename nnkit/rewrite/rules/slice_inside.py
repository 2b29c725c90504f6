"""Cut along one axis inside of a batch of 1.

Pattern: Slice along one axis of a value with a batch of several, or with more than four axes beside the batch.
Algebra: with the axes before it and those behind it merged, [1, p, n, q], it is the same cut along the third axis.
Declines for cuts along several axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.slice import Slice, read_slice
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_MOST_AXES = 5
"""With the batch."""


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    cut: Slice
    axis: int


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Slice"):
        return None
    shape = editor.shape(data_input(node))
    return (node,) if shape[0] != 1 or len(shape) > _MOST_AXES else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    cut = read(editor, node, read_slice)
    shape = editor.shape(data_input(node))
    whole = [
        (start, end, step) == (0, size, 1)
        for start, end, step, size in zip(cut.starts, cut.ends, cut.steps, shape, strict=True)
    ]
    if whole.count(False) != 1:
        raise Refused("it cuts along several axes, or along none")
    return _Match(node, cut, whole.index(False))


def _rewrite(editor: Editor, match: _Match) -> None:
    node, cut, axis = match.node, match.cut, match.axis
    name, value = editor.layer(node), data_input(node)
    shape, after = editor.shape(value), editor.shape(node.outputs[0])
    end = cut.ends[axis] if cut.ends[axis] >= 0 else -(1 << 31)
    bounds = (cut.starts[axis], end, 2, cut.steps[axis])
    numbers = [
        editor.constant(f"{name}.{label}", np.array([of], np.int64))
        for label, of in zip(("starts", "ends", "axes", "steps"), bounds, strict=True)
    ]
    merged = (1, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
    inputs = [reshaped(editor, node, value, merged, f"{name}_input"), *numbers]
    compute_then_reshape(editor, node, "Slice", inputs, {}, shape=(*merged[:2], after[axis], merged[3]), label="cut")


RULE = Rule("slice_inside", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
