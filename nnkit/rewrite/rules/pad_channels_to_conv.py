"""Write the addition of constant channels as a 1x1 convolution.

Pattern: Pad in constant mode of the channels of [1, C, H, W] alone.
Algebra: pad(x) = conv(x) with weights [O, C, 1, 1] that are 1 where output channel o is input channel c and 0
elsewhere, and a bias that is 0 there and the padded value in the new channels.
Why: the shortcut of CIFAR ResNets (option A) widens so, and targets have no kernel for it.
Declines when H or W are padded too, for negative pads (cropping), other modes, and computed widths or values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read
from nnkit.rewrite.rule import Nodes, Rule
from nnkit.rewrite.rules.merge_pad import read_constant_pad

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    node: ir.Node
    before: int
    value: float


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Pad") or len(editor.shape(data_input(node))) != 4:
        return None
    return (node,) if editor.shape(data_input(node))[1] != editor.shape(node.outputs[0])[1] else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    pad = read(editor, node, read_constant_pad)
    if any(pad.before[axis] or pad.after[axis] for axis in (0, 2, 3)):
        raise Refused("it pads other axes than the channels")
    return _Match(node, pad.before[1], pad.value)


def _rewrite(editor: Editor, match: _Match) -> None:
    node, name = match.node, editor.layer(match.node)
    channels, outputs = editor.shape(data_input(node))[1], editor.shape(node.outputs[0])[1]
    kept = slice(match.before, match.before + channels)
    weight = np.zeros((outputs, channels, 1, 1), np.float32)
    weight[kept, :, 0, 0] = np.eye(channels)
    bias = np.full(outputs, match.value, np.float32)
    bias[kept] = 0.0
    inputs = [data_input(node), editor.constant(f"{name}.weight", weight), editor.constant(f"{name}.bias", bias)]
    editor.become(node, "Conv", inputs, {"kernel_shape": [1, 1], "strides": [1, 1], "pads": [0, 0, 0, 0]})


RULE = Rule("pad_channels_to_conv", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
