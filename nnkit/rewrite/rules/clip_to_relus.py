"""Write clamps with ReLUs and additions, for hardware that has no clamp.

Pattern: Clip with constant bounds [a, b].
Algebra: with r = relu(x - a), clip(x, a, b) = a + r - relu(r - (b - a)). Below a both ReLUs are 0; between the
bounds the second is 0 and r = x - a; above b the difference is b - a. ReLU6 has a = 0, and no constant is added:
relu(x) - relu(relu(x) - 6). Without a lower bound, min(x, b) = x - relu(x - b).
Why: the first ReLU runs inside the layer before it, as ReLU6 does, and x itself is read once. The form
relu(x - a) - relu(x - b) has the same numbers and reads x twice.
Declines for computed bounds, for bounds that cross, for integers, and where the numbers of
a table's rows are kept within it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.clip import read_clip
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    low: float
    high: float


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "Clip") else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    clip = read(editor, node, read_clip)
    low, high = clip.low, clip.high
    if not low <= high or low == np.inf or high == -np.inf:
        raise Refused(f"its bounds {low:g} and {high:g} cross")
    if low == -np.inf and high == np.inf:
        raise Refused("it has no bounds: remove_identity takes it out")
    readers = editor.users(node.outputs[0])
    if readers and all(is_op(reader, "Cast") for reader in readers):
        raise Refused("it keeps indices of rows within their table")
    return _Match(node, low, high)


def _rewrite(editor: Editor, match: _Match) -> None:
    node, low, high = match.node, match.low, match.high
    layer, value = editor.layer(node), data_input(match.node)
    made: list[ir.Value] = []

    def add(op_type: str, inputs: list[ir.Value], label: str) -> ir.Value:
        made.append(
            editor.insert(node, op_type, inputs, {}, shape=editor.shape(node.outputs[0]), name=f"{layer}_{label}")
        )
        return made[-1]

    def number(label: str, of: float) -> ir.Value:
        dtype = value.dtype.numpy() if value.dtype is not None else np.dtype(np.float32)
        return editor.constant(f"{layer}.{label}", np.array(of, dtype))

    if low != -np.inf:
        if low != 0.0:
            value = add("Sub", [value, number("low", low)], "shifted")
        if (low, high) == (0.0, np.inf):
            editor.become(node, "Relu", [value], {})
            return
        value = add("Relu", [value], "relu")
    if high != np.inf:
        width = high - low if low != -np.inf else high
        above = value if width == 0.0 else add("Sub", [value, number("width", width)], "minus")
        excess = add("Relu", [above], "excess")
        if low in (0.0, -np.inf):
            editor.copy_tags(node, made)
            editor.become(node, "Sub", [value, excess], {})
            return
        value = add("Sub", [value, excess], "clamped")
    editor.copy_tags(node, made)
    editor.become(node, "Add", [value, number("offset", low)], {})


RULE = Rule("clip_to_relus", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
