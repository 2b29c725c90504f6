"""Make affine maps that fold nowhere a 1x1 depthwise convolution: the last resort.

Pattern: a chain of BatchNormalization, or Mul, Div, Add, Sub with a constant (a scalar, or one number per channel),
on [1, C, H, W] or [1, C]; a BatchNormalization of rows [R, C], too.
Algebra: together they are s_c x_c + t_c = conv(x) with groups = C, weights [C, 1, 1, 1] = s and bias = t; [1, C] is
reshaped to [1, C, 1, 1] and back, and the columns of [R, C] become the channels of [1, C, R, 1].
Declines when the constant differs within a channel, or the value has another number of axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.affine import Affine, affine_input, read_affine
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op
from nnkit.rewrite.reshaping import compute_then_reshape, reshaped
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class _Match:
    chain: tuple[ir.Node, ...]
    value: ir.Value
    affine: Affine


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if affine_input(editor, node) is not None else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    value = affine_input(editor, node)
    affine = read_affine(editor, node)
    if value is None or len(editor.shape(value)) not in (2, 4):
        raise Refused("its input is neither [1, C, H, W] nor [1, C]")
    if is_op(node, "BatchNormalization") and len(editor.shape(value)) == 2 and editor.shape(value)[0] != 1:
        return _Match((node,), value, affine)
    if editor.shape(value)[0] != 1:
        raise Refused("only batch 1 is supported")
    chain = [node]
    while (after := editor.only_user(chain[-1].outputs[0])) is not None and affine_input(editor, after) is not None:
        try:
            following = read_affine(editor, after)
        except Refused:
            break
        if editor.is_cpu(after) or editor.is_cpu(chain[-1]):
            break
        affine = affine.then(following)
        chain.append(after)
    return _Match(tuple(chain), value, affine)


def _rewrite(editor: Editor, match: _Match) -> None:
    node, value, affine = match.chain[-1], match.value, match.affine
    name, channels = editor.layer(node), affine.scale.size
    constants = [
        editor.constant(f"{name}.weight", affine.scale.astype(np.float32).reshape(-1, 1, 1, 1)),
        editor.constant(f"{name}.bias", affine.shift.astype(np.float32)),
    ]
    attributes = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0, 0, 0, 0], "group": channels}
    if len(editor.shape(value)) == 4:
        editor.become(node, "Conv", [value, *constants], attributes)
        result = node.outputs[0]
    elif editor.shape(value)[0] != 1:
        result = _of_rows(editor, node, value, constants, attributes)
    else:
        shape = (1, channels, 1, 1)
        inputs = [reshaped(editor, node, value, shape, f"{name}_input"), *constants]
        result = compute_then_reshape(editor, node, "Conv", inputs, attributes, shape=shape, label="conv")
    for former in reversed(match.chain[:-1]):
        editor.move_tags(former, result)
        editor.remove(former)


def _of_rows(
    editor: Editor, node: ir.Node, value: ir.Value, constants: list[ir.Value], attributes: dict[str, Any]
) -> ir.Value:
    """[R, C] -> conv(value^T)^T; gives what carries the node's tags."""
    name, (rows, channels), swap = editor.layer(node), editor.shape(value), {"perm": [0, 2, 1, 3]}
    flat = reshaped(editor, node, value, (1, rows, channels, 1), f"{name}_rows")
    turned = editor.insert(node, "Transpose", [flat], swap, shape=(1, channels, rows, 1), name=f"{name}_columns")
    scaled = editor.insert(
        node, "Conv", [turned, *constants], attributes, shape=(1, channels, rows, 1), name=f"{name}_conv"
    )
    back = editor.insert(node, "Transpose", [scaled], swap, shape=(1, rows, channels, 1), name=f"{name}_back")
    editor.move_tags(node, scaled)
    target = editor.constant(f"{name}.shape", np.array((rows, channels), np.int64))
    editor.become(node, "Reshape", [back, target], {})
    return scaled


RULE = Rule("batch_norm_to_conv", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
