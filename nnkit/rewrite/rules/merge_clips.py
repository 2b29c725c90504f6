"""Merge consecutive clamps.

Pattern: f -> g, both Relu or Clip with constant bounds.
Algebra: clip(clip(x, a, b), c, d) = clip(x, clip(a, c, d), clip(b, c, d)).
Declines when the result between the two is read elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.graph.read.clip import read_clip
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule
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


def _check(editor: Editor, nodes: Nodes) -> _Match:
    first, second = nodes
    inner, outer = read(editor, first, read_clip), read(editor, second, read_clip)
    editor.require_only_reader(data_input(second), second)
    low, high = (min(max(bound, outer.low), outer.high) for bound in (inner.low, inner.high))
    return _Match(first, second, low, high)


def _rewrite(editor: Editor, match: _Match) -> None:
    write_clamp(editor, match.second, data_input(match.first), match.low, match.high)
    editor.move_tags(match.first, match.second.outputs[0])
    editor.remove(match.first)


RULE = Rule("merge_clips", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
