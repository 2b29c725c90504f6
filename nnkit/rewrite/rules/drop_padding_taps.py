"""Drop the rows and columns of a kernel that read padding alone.

Pattern: Conv with dilations and padding of zeros, some of whose outer taps never lie on the image, as the widest
branches of DeepLab on small maps have them (a dilation of 24 on a map of 8x8 leaves the middle of the kernel).
Algebra: what reads nothing but zeros adds nothing; kernel and padding shrink by it.
Declines where the window would then begin or end inside of the image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.read.conv import Conv, read_conv
from nnkit.graph.read.padding import Pads
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import is_op, operand, read, read_or_none, set_pads
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, eq=False)
class _Match:
    node: ir.Node
    weight: NDArray[Any]
    pads: Pads


def _on_image(conv: Conv, axis: int) -> list[int]:
    """The taps along H (0) or W (1) that lie on the image for some output."""
    window = conv.window
    size, step, ahead = window.input_hw[axis], window.strides[axis], window.pads[axis]
    starts = np.arange(window.output_hw[axis]) * step - ahead
    places = [starts + tap * window.dilations[axis] for tap in range(window.kernel[axis])]
    return [tap for tap, place in enumerate(places) if bool(np.any((place >= 0) & (place < size)))]


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    conv = read_or_none(editor, node, read_conv) if is_op(node, "Conv") else None
    if conv is None or conv.window.dilations == (1, 1):
        return None
    return (node,) if any(len(_on_image(conv, axis)) < conv.window.kernel[axis] for axis in (0, 1)) else None


def _check(editor: Editor, nodes: Nodes) -> _Match:
    (node,) = nodes
    conv = read(editor, node, read_conv)
    window, kept, ahead, behind = conv.window, [], [], []
    for axis in (0, 1):
        taps = _on_image(conv, axis)
        if not taps:
            raise Refused("all of its kernel reads padding")
        first, last = taps[0], taps[-1]
        ahead.append(window.pads[axis] - first * window.dilations[axis])
        span = (last - first) * window.dilations[axis] + 1
        behind.append((window.output_hw[axis] - 1) * window.strides[axis] + span - ahead[-1] - window.input_hw[axis])
        kept.append(slice(first, last + 1))
    if min(ahead) < 0 or any(-by >= step for by, step in zip(behind, window.strides, strict=True)):
        raise Refused("without them its window would begin or end inside of the image")
    pads = (ahead[0], ahead[1], max(behind[0], 0), max(behind[1], 0))
    return _Match(node, np.ascontiguousarray(conv.weight[:, :, kept[0], kept[1]]), pads)


def _rewrite(editor: Editor, match: _Match) -> None:
    import onnx_ir as ir

    node, name = match.node, editor.layer(match.node)
    inputs = [node.inputs[0], editor.constant(f"{name}.weight", match.weight), operand(node, 2)]
    editor.set_inputs(node, inputs if inputs[2] is not None else inputs[:2])
    sides = match.weight.shape[2:]
    node.attributes["kernel_shape"] = ir.AttrInt64s("kernel_shape", list(sides))
    wide = node.attributes["dilations"].as_ints()
    dilations = [1 if side == 1 else dilation for side, dilation in zip(sides, wide, strict=True)]
    node.attributes["dilations"] = ir.AttrInt64s("dilations", dilations)
    set_pads(node, match.pads)


RULE = Rule("drop_padding_taps", True, "carries", __doc__ or "", _pattern, _check, _rewrite)
