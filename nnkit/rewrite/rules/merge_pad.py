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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.clip import read_clip
from nnkit.graph.read.pad import Pad, read_pad
from nnkit.graph.read.padding import Pads
from nnkit.graph.read.pool import read_pool
from nnkit.graph.read.window import read_window
from nnkit.graph.refusal import Refused
from nnkit.graph.view import Node, ReadableGraph
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.reading import data_input, is_op, read, read_or_none, set_pads
from nnkit.rewrite.rule import Nodes, Rule

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


def _check(editor: Editor, nodes: Nodes) -> _Match:
    node, *readers = nodes
    if node.outputs[0].is_graph_output():
        raise Refused(f"'{node.outputs[0].name}' is an output of the network")
    pad = read(editor, node, read_constant_pad)
    if len(pad.before) != 4:
        raise Refused(f"it has {len(pad.before)} axes instead of 4")
    if not pad.pads_hw_only:
        raise Refused("it pads the channels or the batch")
    merged = []
    for reader in readers:
        try:
            merged.append((reader, _merged_pads(editor, node, reader, pad)))
        except Refused as refusal:
            raise Refused(f"'{editor.layer(reader)}' cannot take it: {refusal.reason}") from refusal
    if pad.value != 0.0 and is_op(readers[0], "Conv"):
        editor.require_only_reader(node.outputs[0], readers[0])
        return _Match(node, ())
    return _Match(node, tuple(merged))


def read_constant_pad(graph: ReadableGraph, node: Node) -> Pad:
    """Read a Pad in constant mode. Raises Refused for other modes, and where it crops."""
    pad = read_pad(graph, node)
    if pad.mode != "constant":
        raise Refused(f"its mode is {pad.mode}; only constant padding can be expressed otherwise")
    if min(*pad.before, *pad.after) < 0:
        raise Refused("it crops: its pads are negative")
    return pad


def _merged_pads(editor: Editor, node: ir.Node, reader: ir.Node, pad: Pad) -> Pads:
    """What `reader` pads with `pad` taken over. Raises Refused where it cannot take it."""
    if not is_op(reader, "Conv", "AveragePool", "MaxPool") or data_input(reader) is not node.outputs[0]:
        raise Refused(f"{reader.op_type} does not pad")
    window, value = read(editor, reader, read_window), pad.value
    merged = _sum(window.pads, (*pad.before[2:], *pad.after[2:]))
    if is_op(reader, "Conv"):
        if value != 0.0 and window.reads_padding:
            raise Refused("it pads with zeros itself")
        return merged
    if window.ceil_mode:
        raise Refused("with ceil_mode the padding decides how many windows there are")
    if any(wide >= window.kernel[axis % 2] for axis, wide in enumerate(merged)):
        raise Refused("the padding would be as wide as its window")
    if is_op(reader, "AveragePool"):
        if value != 0.0:
            raise Refused("the padded value is not zero")
        if any(window.pads) and not read(editor, reader, read_pool).counts_padding:
            raise Refused("it has padding of its own, which it does not count")
    elif value > float(np.finfo(np.float32).min) and (
        window.dilations != (1, 1) or not _is_at_least(editor, data_input(node), value)
    ):
        raise Refused(f"the padded value {value:g} may win the maximum")
    return merged


def _is_at_least(editor: Editor, value: ir.Value, bound: float) -> bool:
    producer = editor.producer(value, "Relu", "Clip")
    clip = read_or_none(editor, producer, read_clip) if producer is not None else None
    return clip is not None and clip.low >= bound


def _sum(left: Pads, right: Sequence[int]) -> Pads:
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
