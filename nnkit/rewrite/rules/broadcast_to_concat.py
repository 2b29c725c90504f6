"""Repeat one number a channel over the map by Concat, for hardware that does not broadcast.

Pattern: Add, Sub, Mul or Max of two computed values, [N, C, H, W] and [N, C, 1, 1]; squeeze-and-excitation has it.
Algebra: the smaller value, W times side by side and that H times below one another, is what broadcasting makes of it.
  A Concat takes at most 32 values, so that longer rows are joined in steps.
Declines for other shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnkit.graph.refusal import Refused
from nnkit.rewrite.broadcast import concat_plan
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    value: ir.Value  # that is repeated
    shape: tuple[int, ...]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Add", "Sub", "Mul", "Max") or len(node.inputs) != 2:
        return None
    if any(value is None or editor.array(value) is not None for value in node.inputs):
        return None
    shapes = [editor.shape(value) for value in node.inputs if value is not None]
    return (node,) if shapes[0] != shapes[1] else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    result = editor.shape(node.outputs[0])
    values = [value for value in node.inputs if value is not None]
    smaller = next((value for value in values if editor.shape(value) != result), values[0])
    sizes = {editor.shape(value) for value in values}
    if len(result) != 4 or sizes != {result, (*result[:2], 1, 1)}:
        raise Refused("the smaller value is not one number for each channel of a map")
    return _Match(node, smaller, result)


def _rewrite(editor: Editor, match: _Match) -> None:
    node = match.node
    made: list[ir.Value] = []
    value = match.value
    for axis, label in ((3, "row"), (2, "map")):
        value = _repeated(editor, node, value, axis, match.shape[axis], label, made)
    editor.copy_tags(node, made)
    editor.set_inputs(node, [value if each is match.value else each for each in node.inputs])


def _repeated(
    editor: Editor, node: ir.Node, value: ir.Value, axis: int, times: int, label: str, made: list[ir.Value]
) -> ir.Value:
    """`value` so many times along an axis on which it has one element; new values are appended to `made`."""
    plan, values = concat_plan(times), [value]
    for step, length in zip(plan.steps, plan.lengths[1:], strict=True):
        shape = [length if each == axis else side for each, side in enumerate(editor.shape(value))]
        parts = [values[index] for index in step]
        name = f"{editor.layer(node)}_{label}"
        values.append(editor.insert(node, "Concat", parts, {"axis": axis}, shape=shape, name=name))
    made += values[1:]
    return values[-1]


RULE = Rule("broadcast_to_concat", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
