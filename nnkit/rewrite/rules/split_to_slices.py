"""Make a Split that goes over images, or has many axes, a Slice for each part.

Pattern: Split of a value with a batch of several, or with more than four axes beside the batch.
Algebra: part i is x[start_i : start_i + length_i] along the axis; `slice_inside` does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.slice import Split, read_split
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_MOST_AXES = 5
"""With the batch."""


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    split: Split


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Split"):
        return None
    shape = editor.shape(data_input(node))
    return (node,) if shape[0] != 1 or len(shape) > _MOST_AXES else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    return _Match(node, read(editor, node, read_split))


def _rewrite(editor: Editor, match: _Match) -> None:
    node, axis = match.node, match.split.axis
    name, parts = editor.layer(node), []
    for index, (output, start) in enumerate(zip(node.outputs, match.split.starts, strict=True)):
        shape = editor.shape(output)
        bounds = {"starts": start, "ends": start + shape[axis], "axes": axis}
        numbers = [editor.constant(f"{name}.{key}{index}", np.array([of], np.int64)) for key, of in bounds.items()]
        parts.append(
            editor.insert(node, "Slice", [data_input(node), *numbers], {}, shape=shape, name=f"{name}_part{index}")
        )
    editor.copy_tags(node, parts)
    editor.forget_tags(node)
    for output, part in zip(node.outputs, parts, strict=True):
        editor.redirect(output, part)
    editor.remove(node)


RULE = Rule("split_to_slices", True, "carries", __doc__ or "", _pattern, _check, _rewrite, whole_numbers=True)
