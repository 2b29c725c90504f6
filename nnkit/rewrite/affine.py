"""Per-channel affine maps y = scale * x + shift, read from BatchNormalization and from arithmetic with constants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.batch_norm import read_batch_norm
from nnkit.graph.read.operands import per_channel
from nnkit.graph.refusal import Refused
from nnkit.rewrite.reading import data_input, is_op, read

if TYPE_CHECKING:
    import onnx_ir as ir

    from nnkit.rewrite.editor import Editor

AFFINE_OPS = ("BatchNormalization", "Mul", "Div", "Add", "Sub")


@dataclass(frozen=True, eq=False)
class Affine:
    """y[:, c] = scale[c] * x[:, c] + shift[c]; both [C] float64."""

    scale: NDArray[np.float64]
    shift: NDArray[np.float64]

    def then(self, after: Affine) -> Affine:
        """This map followed by `after`."""
        return Affine(self.scale * after.scale, self.shift * after.scale + after.shift)


def affine_input(editor: Editor, node: ir.Node) -> ir.Value | None:
    """The one computed operand of a node that has the form of an affine map; None for any other node.

    The form alone is looked at: the constants may still turn out not to be per channel.
    """
    if not is_op(node, *AFFINE_OPS):
        return None
    if is_op(node, "BatchNormalization"):
        return data_input(node)
    left, right = node.inputs
    if left is None or right is None:
        return None
    left_constant, right_constant = editor.array(left) is not None, editor.array(right) is not None
    if left_constant == right_constant or (left_constant and node.op_type == "Div"):
        return None
    data = right if left_constant else left
    return data if len(editor.shape(data)) >= 2 else None


def read_affine(editor: Editor, node: ir.Node) -> Affine:
    """The map of a node for which `affine_input` gives a value. Raises Refused where its constants make none."""
    if is_op(node, "BatchNormalization"):
        return _read_batch_norm(editor, node)
    data = affine_input(editor, node)
    if data is None:
        raise Refused(f"{node.op_type} is not an affine map of one input")
    shape = editor.shape(data)
    if shape != editor.shape(node.outputs[0]):
        raise Refused("its constant widens the result by broadcasting")
    constant_on_left = data is node.inputs[1]
    array = editor.array(node.inputs[0 if constant_on_left else 1])
    if array is None:
        raise Refused("its operand is not constant")
    channels = per_channel(np.asarray(array, np.float64), shape)
    if channels is None:
        raise Refused("its constant differs within a channel")
    return _affine_of(node.op_type, channels, constant_on_left)


def _affine_of(op_type: str, constant: NDArray[np.float64], constant_on_left: bool) -> Affine:
    one, zero = np.ones_like(constant), np.zeros_like(constant)
    if op_type == "Mul":
        return Affine(constant, zero)
    if op_type == "Div":
        if not np.all(constant):
            raise Refused("it divides by zero")
        return Affine(1.0 / constant, zero)
    if op_type == "Add":
        return Affine(one, constant)
    return Affine(-one, constant) if constant_on_left else Affine(one, -constant)


def _read_batch_norm(editor: Editor, node: ir.Node) -> Affine:
    if any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        raise Refused("the batch statistics are read by other nodes")
    norm = read(editor, node, read_batch_norm)
    return Affine(norm.scale, norm.shift)
