"""Make convolutions over three dimensions whose kernel is of length 1 along the last convolutions over two.

Pattern: Conv on [N, C, D, H, W] with a kernel of [kD, kH, 1], as the lambda layers of LambdaNet have it.
Algebra: the value as [N, C, D, H * W], in which a step along H is W values: the kernel as [kD, kH], its dilation
along H and the pads there times W.
Declines for computed weights, for strides along H (unless W is 1) or W, for padding of W, and for `auto_pad`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, operand
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    """weight: [O, I, kD, kH, 1]. The rest is along D, H, W; pads: before, then after."""

    node: ir.Node
    weight: NDArray[np.float32]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Conv") or len(editor.shape(data_input(node))) != 5:
        return None
    weight = operand(node, 1)
    return (node,) if weight is not None and editor.shape(weight)[4] == 1 else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    weight = editor.array(operand(node, 1))
    if weight is None:
        raise Refused("its weights are not constant")
    auto_pad = node.attributes.get("auto_pad")
    if auto_pad is not None and auto_pad.as_string() not in ("", "NOTSET", "VALID"):
        raise Refused(f"its padding is {auto_pad.as_string()}, for each dimension its own")
    numbers: dict[str, tuple[int, ...]] = {"strides": (1,) * 3, "dilations": (1,) * 3, "pads": (0,) * 6}
    given = {key: tuple(node.attributes[key].as_ints()) for key in numbers if key in node.attributes}
    match = _Match(node, weight, **{**numbers, **given})
    if match.pads[2] or match.pads[5] or match.strides[2] > 1:
        raise Refused("it pads the last dimension, or takes strides there")
    if match.strides[1] > 1 and editor.shape(data_input(node))[4] > 1:
        raise Refused("it takes strides along the dimension before the last")
    return match


def _rewrite(editor: Editor, match: _Match) -> None:
    node, value = match.node, data_input(match.node)
    name = editor.layer(node)
    images, channels, depth, height, width = editor.shape(value)
    inputs: list[ir.Value | None] = list(node.inputs)
    inputs[0] = reshaped(editor, node, value, (images, channels, depth, height * width), f"{name}_input")
    inputs[1] = editor.constant(f"{name}.weight", match.weight[..., 0])
    top, left, _, bottom, right, _ = match.pads
    attributes = {key: each for key, each in node.attributes.items() if key in ("group", "auto_pad")} | {
        "kernel_shape": list(match.weight.shape[2:4]),
        "strides": list(match.strides[:2]),
        "dilations": [match.dilations[0], match.dilations[1] * width],
        "pads": [top, left * width, bottom, right * width],
    }
    shape = editor.shape(node.outputs[0])
    compute_then_reshape(
        editor, node, "Conv", inputs, attributes, shape=(*shape[:3], shape[3] * shape[4]), label="flat"
    )


RULE = Rule("three_dimensions_to_two", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
