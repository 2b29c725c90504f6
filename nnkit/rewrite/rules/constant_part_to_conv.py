"""Compute the constant part of a concatenation from a computed one.

Pattern: Concat of computed values and constants, the batch 1.
Algebra: c = 0 x + c, where x is as many elements of a computed part as c has, taken from its beginning; repeated
  arithmetic with constants is one convolution.
Why: a class token in front of the tokens of a picture.
Declines where no computed part has as many elements.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op
from nnkit.rewrite.reshaping import reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Concat"):
        return None
    return (node,) if any(editor.array(value) is not None for value in node.inputs) else None


def _check(editor: Editor, nodes: Nodes) -> tuple[ir.Node, ir.Value]:
    (node,) = nodes
    constants = [array for value in node.inputs if (array := editor.array(value)) is not None]
    computed = [value for value in node.inputs if value is not None and editor.array(value) is None]
    largest = max(computed, key=lambda value: prod(editor.shape(value)), default=None)
    if largest is None or prod(editor.shape(largest)) < max(array.size for array in constants):
        raise Refused("no computed part is as large as a constant one")
    if editor.shape(node.outputs[0])[0] != 1:
        raise Refused("it has a batch of several")
    return node, largest


def _rewrite(editor: Editor, match: tuple[ir.Node, ir.Value]) -> None:
    node, source = match
    name = editor.layer(node)
    inputs, made = list(node.inputs), []
    flat = reshaped(editor, node, source, (1, prod(editor.shape(source))), f"{name}_flat")
    for index, value in enumerate(inputs):
        array = editor.array(value)
        if array is None:
            continue
        bounds = [
            editor.constant(f"{name}.{what}", np.array([number], np.int64))
            for what, number in (("starts", 0), ("ends", array.size), ("axes", 1))
        ]
        part = editor.insert(node, "Slice", [flat, *bounds], {}, shape=(1, array.size), name=f"{name}_some{index}")
        zero = editor.constant(f"{name}.zero", np.zeros((1, 1), np.float32))
        none = editor.insert(node, "Mul", [part, zero], {}, shape=(1, array.size), name=f"{name}_none{index}")
        numbers = editor.constant(f"{name}.numbers", array.reshape(1, -1))
        constant = editor.insert(
            node, "Add", [none, numbers], {}, shape=(1, array.size), name=f"{name}_constant{index}"
        )
        inputs[index] = reshaped(editor, node, constant, array.shape, f"{name}_part{index}")
        made += [none, constant]
    editor.copy_tags(node, made)
    editor.set_inputs(node, inputs)


RULE = Rule("constant_part_to_conv", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
