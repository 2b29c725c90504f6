"""Merge an explicit padding into the op after it.

Pattern: Pad in constant mode, of H and W only, read by Conv, AveragePool or MaxPool.
Algebra:
  Conv, zeros:          conv(pad(x)) = conv(x) with the pads added to its own
  Conv, value v != 0:   the Pad stays, marked as a part of the convolution, which then pads with v and copies nothing;
                        the convolution must have no padding of its own and be the only reader
  AveragePool, zeros:   avg(pad(x)) = avg(x) with the pads added, padding counted (count_include_pad = 1); if the
                        pool pads too, it must count its padding already
  MaxPool:              padding that never wins may be left out: -infinity always; zero when x >= 0 (it comes from
                        a Relu or a Clip from 0) and every window holds an element of x
Declines when one of the readers cannot take the padding, for negative pads (cropping), padded channels, pools with
ceil_mode or with padding as wide as the window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nnkit.graph.padding import Pads
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import (
    clip_bounds,
    data_input,
    int_of,
    is_op,
    operand,
    scalar_of,
    set_pads,
    string_of,
    window_of,
)
from nnkit.rewrite.rule import Declined, Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True)
class _Match:
    pad: ir.Node
    readers: tuple[tuple[ir.Node, Pads], ...]  # with the pads each will have; empty: mark the Pad


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    if not is_op(node, "Pad") or editor.mark(node) is not None:
        return None
    readers = editor.users(node.outputs[0])
    return (node, *readers) if readers else None


def _check(editor: Editor, nodes: Nodes) -> _Match | Declined:
    pad, *readers = nodes
    if pad.outputs[0].is_graph_output():
        return Declined(f"'{pad.outputs[0].name}' is an output of the network")
    widths = pad_widths(editor, pad)
    if isinstance(widths, Declined):
        return widths
    value = 0.0 if operand(pad, 2) is None else scalar_of(editor, operand(pad, 2))
    if value is None:
        return Declined("the padded value is not constant")
    merged = []
    for reader in readers:
        reason = _obstacle(editor, pad, reader, widths, value)
        if reason is not None:
            return Declined(f"'{editor.layer(reader)}' cannot take it: {reason}")
        window = window_of(editor, reader)
        if window is not None:
            merged.append((reader, _sum(window.pads, widths)))
    if value != 0.0 and is_op(readers[0], "Conv"):
        other = editor.other_uses(pad.outputs[0], readers[0])
        return _Match(pad, ()) if other is None else Declined(other)
    return _Match(pad, tuple(merged))


def pad_widths(editor: Editor, pad: ir.Node) -> Pads | Declined:
    """(top, left, bottom, right) of a Pad in constant mode that pads H and W alone."""
    widths = all_widths(editor, pad)
    if isinstance(widths, Declined):
        return widths
    if widths.shape[1] != 4:
        return Declined(f"it has {widths.shape[1]} axes instead of 4")
    if widths[:, :2].any():
        return Declined("it pads the channels or the batch")
    top, left, bottom, right = widths[:, 2:].reshape(-1).tolist()
    return top, left, bottom, right


def all_widths(editor: Editor, pad: ir.Node) -> NDArray[np.int64] | Declined:
    """[2, rank] widths (before, after) of a Pad in constant mode that does not crop."""
    mode = string_of(pad, "mode", "constant")
    if mode != "constant":
        return Declined(f"its mode is {mode}; only constant padding can be expressed otherwise")
    array = editor.array(operand(pad, 1))
    if array is None:
        return Declined("its widths are not constant")
    rank = len(editor.shape(data_input(pad)))
    widths = np.zeros((2, rank), np.int64)
    if operand(pad, 3) is not None:
        axes = editor.array(operand(pad, 3))
        if axes is None:
            return Declined("its axes are not constant")
        widths[:, axes.astype(np.int64) % rank] = array.reshape(2, -1)
    else:
        widths[:] = array.reshape(2, rank)
    if widths.min() < 0:
        return Declined("it crops: its widths are negative")
    return widths


def _obstacle(editor: Editor, pad: ir.Node, reader: ir.Node, widths: Pads, value: float) -> str | None:
    """Why `reader` cannot take the padding, or None."""
    if not is_op(reader, "Conv", "AveragePool", "MaxPool") or data_input(reader) is not pad.outputs[0]:
        return f"{reader.op_type} does not pad"
    window = window_of(editor, reader)
    if window is None:
        return "it is not two-dimensional"
    if is_op(reader, "Conv"):
        return "it pads with zeros itself" if value != 0.0 and window.reads_padding else None
    if window.ceil_mode:
        return "with ceil_mode the padding decides how many windows there are"
    if any(wide >= window.kernel[axis % 2] for axis, wide in enumerate(_sum(window.pads, widths))):
        return "the padding would be as wide as its window"
    if is_op(reader, "AveragePool"):
        if value != 0.0:
            return "the padded value is not zero"
        if any(window.pads) and int_of(reader, "count_include_pad", 0) == 0:
            return "it has padding of its own, which it does not count"
        return None
    if value == -np.inf or value <= float(np.finfo(np.float32).min):
        return None
    if window.dilations != (1, 1) or not _is_at_least(editor, data_input(pad), value):
        return f"the padded value {value:g} may win the maximum"
    return None


def _is_at_least(editor: Editor, value: ir.Value, bound: float) -> bool:
    producer = editor.producer(value, "Relu", "Clip")
    bounds = clip_bounds(editor, producer) if producer is not None else None
    return bounds is not None and bounds[0] >= bound


def _sum(left: Pads, right: Pads) -> Pads:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2], left[3] + right[3]


def _rewrite(editor: Editor, match: _Match) -> None:
    import onnx_ir as ir

    pad = match.pad
    if not match.readers:
        editor.set_mark(pad, editor.users(pad.outputs[0])[0].outputs[0])
        return
    for reader, pads in match.readers:
        reader.replace_input_with(0, data_input(pad))
        set_pads(reader, pads)
        if is_op(reader, "AveragePool"):
            reader.attributes["count_include_pad"] = ir.AttrInt64("count_include_pad", 1)
    editor.copy_tags(pad, [reader.outputs[0] for reader, _ in match.readers])
    editor.forget_tags(pad)
    editor.remove(pad)


RULE = Rule("merge_pad", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
