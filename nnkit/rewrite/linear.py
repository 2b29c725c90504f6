"""Convolutions and fully connected layers as linear maps with constant weights, and what folds into them.

Everything is computed in float64 and rounded to float32 once, when it is written back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.rewrite.affine import Affine
from nnkit.rewrite.reading import data_input, float_of, int_of, is_op, operand
from nnkit.rewrite.rule import Declined

if TYPE_CHECKING:
    import onnx_ir as ir

    from nnkit.rewrite.editor import Editor

LINEAR_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear layer's constants.

    weight: Conv [O, I/groups, ...], ConvTranspose [I, O/groups, ...], Gemm and MatMul [O, I]. float64.
    bias: [O] float64.
    """

    op_type: str
    weight: NDArray[np.float64]
    bias: NDArray[np.float64]
    groups: int = 1

    def followed_by(self, affine: Affine) -> Linear:
        """affine(layer(x)): w' = scale_o * w, b' = scale_o * b + shift_o."""
        bias = self.bias * affine.scale + affine.shift
        if self.op_type != "ConvTranspose":
            scale = affine.scale.reshape(-1, *[1] * (self.weight.ndim - 1))
            return replace(self, weight=self.weight * scale, bias=bias)
        # ConvTranspose: input channel i feeds the outputs of its group alone.
        per_group = affine.scale.reshape(self.groups, 1, -1)
        grouped = self.weight.reshape(self.groups, -1, *self.weight.shape[1:])
        spatial = [1] * (self.weight.ndim - 2)
        scaled = grouped * per_group.reshape(*per_group.shape, *spatial)
        return replace(self, weight=scaled.reshape(self.weight.shape), bias=bias)

    def preceded_by(self, affine: Affine) -> Linear:
        """layer(affine(x)) where no zero padding is read: w' = w * scale_i, b'_o = b_o + sum of w * shift_i.

        A ConvTranspose must have no shift: not every output position sees every tap.
        """
        if self.op_type == "ConvTranspose":
            scale = affine.scale.reshape(-1, *[1] * (self.weight.ndim - 1))
            return replace(self, weight=self.weight * scale)
        outputs, group_inputs = self.weight.shape[:2]
        group_of_output = np.arange(outputs) // (outputs // self.groups)
        channels = group_of_output[:, None] * group_inputs + np.arange(group_inputs)[None, :]  # [O, I/groups]
        per_tap = self.weight.reshape(outputs, group_inputs, -1)
        bias = self.bias + np.einsum("oik,oi->o", per_tap, affine.shift[channels])
        weight = per_tap * affine.scale[channels][:, :, None]
        return replace(self, weight=weight.reshape(self.weight.shape), bias=bias)

    @property
    def inputs(self) -> int:
        """Number of input channels."""
        if self.op_type == "ConvTranspose":
            return int(self.weight.shape[0])
        return int(self.weight.shape[1]) * self.groups

    @property
    def outputs(self) -> int:
        """Number of output channels."""
        return int(self.bias.size)


def read_linear(editor: Editor, node: ir.Node) -> Linear | Declined:
    """The constants of a node of `LINEAR_OPS`, or why they cannot be had."""
    array = editor.array(operand(node, 1))
    if array is None:
        if is_op(node, "MatMul", "Gemm") and editor.array(operand(node, 0)) is None:
            return Declined("it multiplies two computed values")
        return Declined("its weights are not constant")
    weight = np.asarray(array, np.float64)
    bias_array = editor.array(operand(node, 2))
    if operand(node, 2) is not None and bias_array is None:
        return Declined("its bias is not constant")
    bias = None if bias_array is None else np.asarray(bias_array, np.float64)
    if is_op(node, "Conv", "ConvTranspose"):
        groups = int_of(node, "group", 1)
        outputs = weight.shape[0] if is_op(node, "Conv") else weight.shape[1] * groups
        return Linear(str(node.op_type), weight, np.zeros(outputs) if bias is None else bias, groups)
    return _read_fully_connected(editor, node, weight, bias)


def _read_fully_connected(
    editor: Editor, node: ir.Node, weight: NDArray[np.float64], bias: NDArray[np.float64] | None
) -> Linear | Declined:
    if weight.ndim != 2:
        return Declined(f"its weights have {weight.ndim} axes instead of 2")
    if is_op(node, "MatMul"):
        weight = weight.T
    else:
        weight = float_of(node, "alpha", 1.0) * (weight if int_of(node, "transB", 0) else weight.T)
    outputs, inputs = weight.shape
    if np.prod(editor.shape(data_input(node))) != inputs:
        return Declined("it has more than one row: only batch 1 is supported")
    if bias is None:
        return Linear(str(node.op_type), weight, np.zeros(outputs))
    beta = float_of(node, "beta", 1.0)
    return Linear(str(node.op_type), weight, beta * np.broadcast_to(bias, (1, outputs)).reshape(-1))


def write_linear(editor: Editor, node: ir.Node, linear: Linear) -> None:
    """Give `node` the constants of `linear`; a MatMul becomes a Gemm, which can hold a bias."""
    base = editor.layer(node)
    weight = editor.constant(f"{base}.weight", linear.weight.astype(np.float32))
    bias = editor.constant(f"{base}.bias", linear.bias.astype(np.float32))
    inputs = [data_input(node), weight, bias]
    if is_op(node, "Conv", "ConvTranspose"):
        editor.set_inputs(node, inputs)
    else:
        editor.become(node, "Gemm", inputs, {"transA": int_of(node, "transA", 0), "transB": 1})


def can_hold_bias(editor: Editor, node: ir.Node) -> bool:
    """Whether `write_linear` can be used on `node`: a MatMul must have a 2-D input to become a Gemm."""
    return not is_op(node, "MatMul") or len(editor.shape(data_input(node))) == 2
