"""Repeat a value along its axes by Concat.

Pattern: Tile of a computed value by constant numbers, as PyTorch exports `repeat`.
Algebra: a value r times along an axis is the Concat of r of it. A Concat takes at most 32 values, so that longer rows
  are joined in steps.
Declines where images are repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.graph.refusal import Refused
from nnkit.rewrite.broadcast import concat_plan
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, operand
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    repeats: tuple[int, ...]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "Tile") and editor.array(data_input(node)) is None else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    repeats = editor.array(operand(node, 1))
    if repeats is None:
        raise Refused("how often it repeats is computed")
    times = tuple(int(each) for each in repeats)
    if times[0] > 1:
        raise Refused("it repeats images")
    if max(times) == 1:
        raise Refused("it repeats nothing: `remove_identity` removes it")
    return _Match(node, times)


def _rewrite(editor: Editor, match: _Match) -> None:
    node, value, made = match.node, data_input(match.node), []
    for axis, times in enumerate(match.repeats):
        plan, values, side = concat_plan(times), [value], editor.shape(value)[axis]
        for step, length in zip(plan.steps, plan.lengths[1:], strict=True):
            shape = tuple(length * side if each == axis else size for each, size in enumerate(editor.shape(value)))
            parts = [values[index] for index in step]
            name = f"{editor.layer(node)}_axis{axis}"
            values.append(editor.insert(node, "Concat", parts, {"axis": axis}, shape=shape, name=name))
        made += values[1:]
        value = values[-1]
    last = value.producer()
    if last is None:
        return
    editor.copy_tags(node, made[:-1])
    editor.become(node, "Concat", list(last.inputs), {"axis": last.attributes["axis"].as_int()})
    editor.remove(last)


RULE = Rule("tile_to_concat", True, "carries", __doc__ or "", _pattern, _check, _rewrite, whole_numbers=True)
