"""Make a Transpose of many axes several of four, the batch not counted.

Pattern: Transpose with more than four axes beside the batch, or of a batch of several, or one that moves the batch.
Algebra: axes of length 1 and axes that stay together count for nothing; what is left is reached by exchanging two
  neighbouring groups of axes, [1, p, a, b, s] to [1, p, b, a, s], once for each axis that is not in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.transpose import read_transpose
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.reshaping import keeps_order, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_MOST_AXES = 5
"""With the batch."""


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    lengths: list[int]
    order: list[int]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Transpose") or keeps_order(editor, node):
        return None
    order = read(editor, node, read_transpose).order
    several = editor.shape(data_input(node))[0] != 1
    return (node,) if len(order) > _MOST_AXES or order[0] != 0 or several else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    shape, order = editor.shape(data_input(node)), read(editor, node, read_transpose).order
    groups: list[list[int]] = []
    for axis in (axis for axis in order if shape[axis] > 1):
        between = range(groups[-1][-1] + 1, axis) if groups else ()
        if groups and axis > groups[-1][-1] and all(shape[i] == 1 for i in between):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    before = sorted(groups)
    lengths = [prod(shape[axis] for axis in group) for group in before]
    return _Match(node, lengths, [before.index(group) for group in groups])


def _rewrite(editor: Editor, match: _Match) -> None:
    node, name = match.node, editor.layer(match.node)
    value, lengths, names = data_input(node), list(match.lengths), list(range(len(match.lengths)))
    made: list[ir.Value] = []
    if len(lengths) < _MOST_AXES:
        value = reshaped(editor, node, value, (1, *lengths), f"{name}_input")
        perm = [0, *(axis + 1 for axis in match.order)]
        shape = [1, *(lengths[axis] for axis in match.order)]
        made = [value, editor.insert(node, "Transpose", [value], {"perm": perm}, shape=shape, name=f"{name}_turned")]
        lengths = shape
    else:
        for place, wanted in enumerate(match.order):
            at = names.index(wanted)
            if at == place:
                continue
            parts = (1, prod(lengths[:place]), prod(lengths[place:at]), lengths[at], prod(lengths[at + 1 :]))
            value = reshaped(editor, node, value, parts, f"{name}_part{place}")
            shape = [parts[i] for i in (0, 1, 3, 2, 4)]
            turned = editor.insert(
                node, "Transpose", [value], {"perm": [0, 1, 3, 2, 4]}, shape=shape, name=f"{name}_turn{place}"
            )
            made += [value, turned]
            value = turned
            names.insert(place, names.pop(at))
            lengths.insert(place, lengths.pop(at))
    editor.copy_tags(node, made)
    target = editor.constant(f"{name}.shape", np.array(editor.shape(node.outputs[0]), np.int64))
    editor.become(node, "Reshape", [made[-1], target], {})


RULE = Rule("split_transpose", True, "carries", __doc__ or "", _pattern, _check, _rewrite, whole_numbers=True)
