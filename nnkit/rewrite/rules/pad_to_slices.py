"""Make a Pad that repeats elements (reflect, edge, wrap) of slices, joined.

Pattern: Pad with mode `reflect`, `edge` or `wrap`, along any axis but the first.
Algebra: along each padded axis concat(before, x, after), where reflect takes the slices x[p:0:-1] and
  x[-2:-2-q:-1], edge the first and the last element p and q times, wrap x[-p:] and x[:q].
Declines for negative pads, and for a reflection over an axis of one element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.pad import Pad, read_pad
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    pad: Pad


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Pad"):
        return None
    mode = node.attributes.get("mode")
    return (node,) if mode is not None and mode.as_string() in ("reflect", "edge", "wrap") else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    pad = read(editor, node, read_pad)
    shape = editor.shape(data_input(node))
    amounts = list(zip(pad.before, pad.after, shape, strict=True))
    if min(min(before, after) for before, after, _ in amounts) < 0 or any(amounts[0][:2]):
        raise Refused("its pads are negative, or of the batch")
    if pad.mode != "edge" and any(max(b, a) >= size + (pad.mode == "wrap") for b, a, size in amounts if b or a):
        raise Refused("it pads more elements than there are")
    if not any(before or after for before, after, _ in amounts):
        raise Refused("it pads nothing")
    return _Match(node, pad)


def _ranges(mode: str, before: int, after: int, size: int) -> tuple[list[range], list[range]]:
    """Which elements come before and after those of an axis, in ranges with a step of 1 or -1."""
    if mode == "edge":
        return [range(1)] * before, [range(size - 1, size)] * after
    if mode == "wrap":
        first, last = range(size - before, size), range(after)
    else:
        first, last = range(before, 0, -1), range(size - 2, size - 2 - after, -1)
    return [first] * bool(before), [last] * bool(after)


def _rewrite(editor: Editor, match: _Match) -> None:
    node, pad = match.node, match.pad
    name, value = editor.layer(node), data_input(node)
    made: list[ir.Value] = []
    axes = [axis for axis in range(len(pad.before)) if pad.before[axis] or pad.after[axis]]
    for axis in axes:
        shape = list(editor.shape(value))

        def part(picked: range, source: ir.Value = value, axis: int = axis, shape: list[int] = shape) -> ir.Value:
            end = picked[-1] + picked.step
            bounds = [[picked[0]], [end if end >= 0 else -(1 << 31)], [axis], [picked.step]]
            labels = ("starts", "ends", "axes", "steps")
            numbers = [
                editor.constant(f"{name}.{label}", np.array(of, np.int64))
                for label, of in zip(labels, bounds, strict=True)
            ]
            cut = [*shape[:axis], len(picked), *shape[axis + 1 :]]
            return editor.insert(node, "Slice", [source, *numbers], {}, shape=cut, name=f"{name}_part")

        first, last = _ranges(pad.mode, pad.before[axis], pad.after[axis], shape[axis])
        parts = [*map(part, first), value, *map(part, last)]
        made += [each for each in parts if each is not value]
        if axis == axes[-1]:
            editor.copy_tags(node, made)
            editor.become(node, "Concat", parts, {"axis": axis})
            return
        shape[axis] += pad.before[axis] + pad.after[axis]
        value = editor.insert(node, "Concat", parts, {"axis": axis}, shape=shape, name=f"{name}_joined")
        made.append(value)


RULE = Rule("pad_to_slices", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
