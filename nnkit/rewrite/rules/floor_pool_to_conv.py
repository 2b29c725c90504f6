"""Write a pooling that rounds its size down with one of stride 1, for hardware whose poolings round up.

Pattern: MaxPool or AveragePool whose last window, rounded up, would reach beyond the map, as ResNet's
  first pooling.
Algebra: pool(x, stride s)[i] = pool(x, stride 1)[s i]. A pooling of stride 1 leaves nothing over, and a 1x1
  convolution of stride s, whose size is rounded down, with the identity as its weights, picks every s-th value.
Declines for dilated windows and for padding that is not the same on both ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.pool import read_pool
from nnkit.graph.read.window import Pair, SlidingWindow
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read, read_or_none
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    window: SlidingWindow
    counts_padding: bool
    size: Pair  # of the pooling of stride 1


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "MaxPool", "AveragePool"):
        return None
    pool = read_or_none(editor, node, read_pool)
    return (node,) if pool is not None and any(_left_over(pool.window, axis) for axis in (0, 1)) else None


def _left_over(window: SlidingWindow, axis: int) -> bool:
    """Whether rounding up gives one more than there is. Padded maps have no window that begins beyond them."""
    begin, end = window.pads[axis], window.pads[2 + axis]
    room = window.input_hw[axis] + begin + end - window.kernel[axis]
    size = -(-room // window.strides[axis]) + 1
    if (begin or end) and (size - 1) * window.strides[axis] >= window.input_hw[axis] + begin:
        size -= 1
    return window.output_hw[axis] < size


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    pool = read(editor, node, read_pool)
    window = pool.window
    if window.dilations != (1, 1):
        raise Refused("its window is dilated")
    if window.pads[:2] != window.pads[2:]:
        raise Refused("its padding differs between the ends of a side")
    height, width = (
        side + 2 * pad - kernel + 1
        for side, pad, kernel in zip(window.input_hw, window.pads, window.kernel, strict=False)
    )
    return _Match(node, window, pool.counts_padding, (height, width))


def _rewrite(editor: Editor, match: _Match) -> None:
    node, window = match.node, match.window
    value, name = data_input(node), editor.layer(node)
    images, channels = editor.shape(value)[:2]
    attributes: dict[str, object] = {
        "kernel_shape": list(window.kernel),
        "strides": [1, 1],
        "pads": list(window.pads),
    }
    if node.op_type == "AveragePool":
        attributes["count_include_pad"] = int(match.counts_padding)
    shape = (images, channels, *match.size)
    dense = editor.insert(node, str(node.op_type), [value], attributes, shape=shape, name=f"{name}_dense")
    editor.copy_tags(node, [dense])
    weight = editor.constant(f"{name}.weight", np.eye(channels, dtype=np.float32)[:, :, None, None])
    picks = {"kernel_shape": [1, 1], "strides": list(window.strides), "pads": [0] * 4}
    editor.become(node, "Conv", [dense, weight], picks)


RULE = Rule("floor_pool_to_conv", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
