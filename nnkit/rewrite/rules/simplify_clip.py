"""Write clamps in one form.

Pattern: Clip with constant bounds [0, infinity); Max or Min of a value and a constant with one number.
Algebra: clip(x, 0, inf) = relu(x); max(x, c) = clip(x, c, inf), and relu(x) for c = 0; min(x, c) = clip(x, -inf, c).
Declines when the constant has several numbers or widens the result by broadcasting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.clip import read_clip
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read_or_none, scalar_of
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    value: ir.Value
    low: float
    high: float


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if is_op(node, "Clip"):
        clip = read_or_none(editor, node, read_clip)
        return (node,) if clip is not None and (clip.low, clip.high) == (0.0, np.inf) else None
    if not is_op(node, "Max", "Min") or len(node.inputs) != 2:
        return None
    constants = [editor.array(value) is not None for value in node.inputs]
    return (node,) if constants.count(True) == 1 else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    if is_op(node, "Clip"):
        return _Match(node, data_input(node), 0.0, np.inf)
    left, right = node.inputs
    value, constant = (left, right) if editor.array(left) is None else (right, left)
    bound = scalar_of(editor, constant)
    if bound is None or value is None:
        raise Refused("its constant holds several numbers")
    if editor.shape(value) != editor.shape(node.outputs[0]):
        raise Refused("its constant widens the result by broadcasting")
    return _Match(node, value, *((bound, np.inf) if is_op(node, "Max") else (-np.inf, bound)))


def _rewrite(editor: Editor, match: _Match) -> None:
    write_clamp(editor, match.node, match.value, match.low, match.high)


def write_clamp(editor: Editor, node: ir.Node, value: ir.Value, low: float, high: float) -> None:
    """Make `node` the Relu or Clip that clamps `value` to [low, high]; infinite bounds are left out."""
    if (low, high) == (0.0, np.inf):
        editor.become(node, "Relu", [value], {})
        return
    inputs: list[ir.Value | None] = [value]
    inputs.append(None if low == -np.inf else _bound(editor, node, "min", low))
    if high != np.inf:
        inputs.append(_bound(editor, node, "max", high))
    editor.become(node, "Clip", inputs, {})


def _bound(editor: Editor, node: ir.Node, which: str, bound: float) -> ir.Value:
    return editor.constant(f"{editor.layer(node)}.{which}", np.array(bound, np.float32))


RULE = Rule("simplify_clip", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
