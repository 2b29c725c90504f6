"""Convolutions and fully connected layers as linear maps with constant weights, and what folds into them.

Everything is computed in float64 and rounded to float32 once, when it is written back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.fully_connected import read_fully_connected
from nnkit.graph.read.operands import optional_constant, required_constant
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph
from nnkit.rewrite.affine import Affine
from nnkit.rewrite.reading import data_input, is_op, read

if TYPE_CHECKING:
    import onnx_ir as ir

    from nnkit.rewrite.editor import Editor

LINEAR_OPS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear layer's constants.

    weight: Conv [O, I/groups, ...], ConvTranspose [I, O/groups, ...], Gemm and MatMul [O, I]. float64.
    bias: [O] float64.
    data_transposed: a Gemm reads its one row as a column (transA).
    """

    op_type: str
    weight: NDArray[np.float64]
    bias: NDArray[np.float64]
    groups: int = 1
    data_transposed: bool = False

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


def read_linear(editor: Editor, node: ir.Node) -> Linear:
    """The constants of a node of `LINEAR_OPS`. Raises Refused where they are computed."""
    return read(editor, node, _read_convolution if is_op(node, "Conv", "ConvTranspose") else _read_fully_connected)


def _read_convolution(graph: ReadableGraph, node: Node) -> Linear:
    """Over any number of spatial axes."""
    weight = np.asarray(required_constant(graph, node, 1, "weights are"), np.float64)
    bias = optional_constant(graph, node, 2, "bias is")
    groups = node.integer("group", 1)
    outputs = weight.shape[0] if node.op_type == "Conv" else weight.shape[1] * groups
    return Linear(node.op_type, weight, np.zeros(outputs) if bias is None else np.asarray(bias, np.float64), groups)


def _read_fully_connected(graph: ReadableGraph, node: Node) -> Linear:
    layer = read_fully_connected(graph, node)
    if np.prod(graph.shape(layer.data)) != layer.inputs:
        raise Refused("it has more than one row: only batch 1 is supported")
    bias = layer.bias(np.float64)
    return Linear(
        node.op_type,
        layer.weight(np.float64),
        np.zeros(layer.outputs) if bias is None else bias,
        data_transposed=layer.data_transposed,
    )


def write_linear(editor: Editor, node: ir.Node, linear: Linear) -> None:
    """Give `node` the constants of `linear`; a MatMul becomes a Gemm, which can hold a bias."""
    base = editor.layer(node)
    weight = editor.constant(f"{base}.weight", linear.weight.astype(np.float32))
    bias = editor.constant(f"{base}.bias", linear.bias.astype(np.float32))
    inputs = [data_input(node), weight, bias]
    if is_op(node, "Conv", "ConvTranspose"):
        editor.set_inputs(node, inputs)
    else:
        editor.become(node, "Gemm", inputs, {"transA": int(linear.data_transposed), "transB": 1})


def can_hold_bias(editor: Editor, node: ir.Node) -> bool:
    """Whether `write_linear` can be used on `node`: a MatMul must have a 2-D input to become a Gemm."""
    return not is_op(node, "MatMul") or len(editor.shape(data_input(node))) == 2
