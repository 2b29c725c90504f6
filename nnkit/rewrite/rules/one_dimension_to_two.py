"""Make layers over one dimension layers over two, the first of height 1.

Pattern: Conv, ConvTranspose, MaxPool, AveragePool, GlobalAveragePool or Resize on [N, C, L].
Algebra: the value as [N, C, 1, L], kernels [O, I, k] as [O, I, 1, k], strides, dilations and pads with 1, 1 and 0 for
the height; the result is reshaped to what the layer gave.
Declines for computed weights and sizes, and for `auto_pad`, which counts for both dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nnkit.graph.read.resize import read_resize
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, operand, read
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

_HEIGHT_VALUE = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "output_shape": 1}
"""By attribute the number for the new dimension of length 1."""


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "Resize"):
        return None
    return (node,) if len(editor.shape(data_input(node))) == 3 else None


def _check(editor: Editor, nodes: Nodes) -> ir.Node:
    (node,) = nodes
    if is_op(node, "Conv", "ConvTranspose") and editor.array(operand(node, 1)) is None:
        raise Refused("its weights are not constant")
    auto_pad = node.attributes.get("auto_pad")
    if auto_pad is not None and auto_pad.as_string() not in ("", "NOTSET", "VALID"):
        raise Refused(f"its padding is {auto_pad.as_string()}, for each dimension its own")
    if len(node.outputs) > 1:
        raise Refused("it gives indices too")
    if is_op(node, "Resize") and read(editor, node, read_resize).keeps_aspect:
        raise Refused("it keeps the aspect ratio")
    return node


def _rewrite(editor: Editor, node: ir.Node) -> None:
    name, value = editor.layer(node), data_input(node)
    images, channels, length = editor.shape(value)
    inputs: list[ir.Value | None] = list(node.inputs)
    inputs[0] = reshaped(editor, node, value, (images, channels, 1, length), f"{name}_input")
    attributes: dict[str, Any] = dict(node.attributes)
    weight = editor.array(operand(node, 1))
    if is_op(node, "Resize"):
        inputs[1:] = _sizes(editor, node, name)
        attributes.pop("axes", None)
    elif weight is not None:
        inputs[1] = editor.constant(f"{name}.weight", np.expand_dims(weight, 2))
    for key, first in _HEIGHT_VALUE.items():
        if key in attributes:
            attributes[key] = [first, *attributes[key].as_ints()]
    if "pads" in attributes:
        before, after = attributes["pads"].as_ints()
        attributes["pads"] = [0, before, 0, after]
    shape = editor.shape(node.outputs[0])
    compute_then_reshape(
        editor, node, str(node.op_type), inputs, attributes, shape=(*shape[:2], 1, shape[2]), label="flat"
    )


def _sizes(editor: Editor, node: ir.Node, name: str) -> list[ir.Value | None]:
    """The inputs of a Resize behind its data: nothing, and its scales, or its sizes where it has those."""
    resize = read(editor, node, read_resize)
    if len(node.inputs) > 3 and node.inputs[3] is not None:
        sizes = np.array([*resize.after[:2], 1, resize.after[2]], np.int64)
        return [None, None, editor.constant(f"{name}.sizes", sizes)]
    scales = np.array([*resize.scales[:2], 1, resize.scales[2]], np.float32)
    return [None, editor.constant(f"{name}.scales", scales)]


RULE = Rule("one_dimension_to_two", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
