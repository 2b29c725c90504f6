"""Make normalisation by the squares of neighbouring channels a convolution and a power.

Pattern: LRN of [1, C, H, W].
Algebra: x / (k + a / n * s)^b, s the sum of squares of n channels around each, is x d^-b, where d is a 1x1
  convolution of x x with a / n for each of these channels and the bias k. d is k at least, so that the power is
  defined.
Declines for an even n, a negative a or k, and other shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.lrn import Lrn, read_lrn
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class _Match:
    node: ir.Node
    lrn: Lrn


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    return (node,) if is_op(node, "LRN") else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    lrn = read(editor, node, read_lrn)
    if lrn.size % 2 == 0:
        raise Refused(f"its size, {lrn.size}, is even")
    if lrn.alpha < 0 or lrn.bias <= 0:
        raise Refused(f"its alpha is {lrn.alpha:g} and its bias {lrn.bias:g}")
    shape = editor.shape(data_input(node))
    if len(shape) != 4 or shape[0] != 1:
        raise Refused(f"it is of {list(shape)}")
    return _Match(node, lrn)


def _rewrite(editor: Editor, match: _Match) -> None:
    node, lrn = match.node, match.lrn
    name, value = editor.layer(node), data_input(node)
    shape = editor.shape(value)
    channels = np.arange(shape[1])
    apart = channels - channels[:, None]  # [channels of the sum, channels that it is of]
    near = np.abs(apart) <= (lrn.size - 1) // 2
    weights = editor.constant(f"{name}.weight", (near * (lrn.alpha / lrn.size)).astype(np.float32)[:, :, None, None])
    bias = editor.constant(f"{name}.bias", np.full(shape[1], lrn.bias, np.float32))
    squares = editor.insert(node, "Mul", [value, value], {}, shape=shape, name=f"{name}_squares")
    attributes = {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0] * 4}
    total = editor.insert(node, "Conv", [squares, weights, bias], attributes, shape=shape, name=f"{name}_sum")
    exponent = editor.constant(f"{name}.exponent", np.array(-lrn.beta, np.float32))
    factor = editor.insert(node, "Pow", [total, exponent], {}, shape=shape, name=f"{name}_factor")
    editor.copy_tags(node, [squares, total, factor])
    editor.become(node, "Mul", [value, factor], {})


RULE = Rule("lrn_to_layers", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
