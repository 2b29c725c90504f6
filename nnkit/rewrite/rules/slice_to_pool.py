"""Write the picking of every n-th row and column as a pooling.

Pattern: Slice of H and W with constant positive steps, from the first element to the end.
Algebra: x[:, :, ::m, ::n] = maxpool(x) with a 1x1 window and strides (m, n).
Why: the shortcut of CIFAR ResNets (option A) subsamples so; merge_subsampling then moves the strides into a
convolution.
Declines for Slices that leave out rows or columns at the start or the end, or channels, and for computed bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, operand
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    strides: tuple[int, int]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "Slice") and len(editor.shape(data_input(node))) == 4 else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    shape = editor.shape(data_input(node))
    bounds = [editor.array(operand(node, index)) for index in (1, 2, 3, 4)]
    starts, ends, axes, steps = (None if a is None else [int(i) for i in a.reshape(-1)] for a in bounds)
    computed = any(editor.array(v) is None for v in node.inputs[1:] if v is not None)
    if starts is None or ends is None or computed:
        raise Refused("its bounds are not constant")
    axes = axes or list(range(len(starts)))
    steps = steps or [1] * len(starts)
    strides = [1, 1, 1, 1]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        picked = range(shape[axis])[start:end:step]
        if picked != range(shape[axis])[::step] or step < 1:
            raise Refused(f"it leaves out elements at an end of axis {axis % 4}, or reverses it")
        strides[axis % 4] = step
    if strides[:2] != [1, 1]:
        raise Refused("it picks channels")
    return _Match(node, (strides[2], strides[3]))


def _rewrite(editor: Editor, match: _Match) -> None:
    attributes = {"kernel_shape": [1, 1], "strides": list(match.strides), "pads": [0, 0, 0, 0]}
    editor.become(match.node, "MaxPool", [data_input(match.node)], attributes)


RULE = Rule("slice_to_pool", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
