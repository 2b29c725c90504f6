"""Merge consecutive clamps.

Pattern: f -> g, both Relu or Clip with constant bounds.
Algebra: clip(clip(x, a, b), c, d) = clip(x, clip(a, c, d), clip(b, c, d)).
Declines when the result between the two is read elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import clip_bounds, data_input, is_op
from nnkit.rewrite.rule import Declined, Nodes, Rule
from nnkit.rewrite.rules.simplify_clip import write_clamp

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    first: ir.Node
    second: ir.Node
    low: float
    high: float


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Relu", "Clip"):
        return None
    first = editor.producer(data_input(node), "Relu", "Clip")
    if first is None or editor.mark(first) is not None or editor.mark(node) is not None:
        return None
    return first, node


def _check(editor: Editor, nodes: Nodes) -> _Match | Declined:
    first, second = nodes
    inner, outer = clip_bounds(editor, first), clip_bounds(editor, second)
    if inner is None or outer is None:
        return Declined("its bounds are not constant")
    other = editor.other_uses(data_input(second), second)
    if other is not None:
        return Declined(other)
    low, high = (min(max(bound, outer[0]), outer[1]) for bound in inner)
    return _Match(first, second, low, high)


def _rewrite(editor: Editor, match: _Match) -> None:
    write_clamp(editor, match.second, data_input(match.first), match.low, match.high)
    editor.move_tags(match.first, match.second.outputs[0])
    editor.remove(match.first)


RULE = Rule("merge_clips", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
