"""Read the pixels of a block with one strided convolution, without taking them apart (YOLO's Focus).

Pattern: Slices of one map [1, C, H, W], each with the steps (m, n) and an offset within the block of m x n pixels,
in any order -> Concat of the channels -> Conv. A part may be made by several Slices in a row.
Algebra: part p holds x[:, a_p + m i, b_p + n j]. A Conv with kernel (h, w), strides s and pads p over the parts is a
Conv over x with the kernel (m h, n w), the strides and pads m and n times as large, and the weights
W'[o, c, m i + a_p, n j + b_p] = W[o, p C + c, i, j].
Why: Focus takes four Slices with steps of 2 that many NPUs have no layer for; one convolution with stride 2 does the
same on the same numbers.
Declines when the block does not divide the map, when a Slice leaves out rows, columns or channels otherwise, for
several groups or dilation of the convolution, and where a part or the Concat is also read elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nnkit.graph.read.slice import read_slice
from nnkit.graph.read.window import read_window
from nnkit.graph.refusal import Refused
from nnkit.rewrite.editor import Editor
from nnkit.rewrite.linear import read_linear
from nnkit.rewrite.reading import data_input, is_op, read, read_or_none, set_pads
from nnkit.rewrite.rule import Nodes, Rule

if TYPE_CHECKING:
    import onnx_ir as ir

Pair = tuple[int, int]


@dataclass(frozen=True)
class _Part:
    """Every `steps`-th row and column of `source` from `offset` on, made by `slices`, the last one first."""

    source: ir.Value
    offset: Pair
    steps: Pair
    slices: Nodes


@dataclass(frozen=True)
class _Match:
    concat: ir.Node
    conv: ir.Node
    parts: tuple[_Part, ...]


def _chain(editor: Editor, value: ir.Value) -> list[ir.Node]:
    slices = []
    while (node := editor.producer(value, "Slice")) is not None:
        slices.append(node)
        value = data_input(node)
    return slices


def _pattern(editor: Editor, node: ir.Node) -> Nodes | None:
    concat = editor.producer(data_input(node), "Concat") if is_op(node, "Conv") else None
    if concat is None or len(editor.shape(concat.outputs[0])) != 4:
        return None
    chains = [[] if value is None else _chain(editor, value) for value in concat.inputs]
    if len(chains) < 2 or not all(any(_is_strided(editor, each) for each in chain) for chain in chains):
        return None
    return tuple(dict.fromkeys([concat, node, *(each for chain in chains for each in chain)]))


def _is_strided(editor: Editor, node: ir.Node) -> bool:
    cut = read_or_none(editor, node, read_slice)
    return cut is not None and max(cut.steps) > 1


def _part(editor: Editor, value: ir.Value) -> _Part:
    slices = tuple(_chain(editor, value))
    source = data_input(slices[-1])
    offset, steps = [0, 0], [1, 1]
    for node in reversed(slices):
        shape, cut = editor.shape(data_input(node)), read(editor, node, read_slice)
        for axis, size in enumerate(shape):
            start, step = cut.starts[axis], cut.steps[axis]
            if range(size)[start : cut.ends[axis] : step] != range(size)[start::step] or step < 1:
                raise Refused(f"'{editor.layer(node)}' leaves out elements at the end of axis {axis}")
            if axis < 2:
                if (start, step) != (0, 1):
                    raise Refused(f"'{editor.layer(node)}' takes apart axis {axis}, not height or width")
                continue
            offset[axis - 2] += start * steps[axis - 2]
            steps[axis - 2] *= step
    return _Part(source, (offset[0], offset[1]), (steps[0], steps[1]), slices)


def _check(editor: Editor, nodes: Nodes) -> _Match:
    concat, conv, *_ = nodes
    rank = len(editor.shape(concat.outputs[0]))
    if concat.attributes["axis"].as_int() % rank != 1:
        raise Refused("the parts are not joined along the channels")
    parts = tuple(_part(editor, value) for value in concat.inputs if value is not None)
    if len({part.source for part in parts}) > 1 or len({part.steps for part in parts}) > 1:
        raise Refused("the parts are not of one map, or have other steps")
    steps, shape = parts[0].steps, editor.shape(parts[0].source)
    if shape[2] % steps[0] or shape[3] % steps[1]:
        raise Refused(f"blocks of {steps[0]} x {steps[1]} do not divide a map of {shape[2]} x {shape[3]}")
    if any(offset >= step for part in parts for offset, step in zip(part.offset, steps, strict=True)):
        raise Refused("a part begins behind its first block")
    if read_linear(editor, conv).groups != 1:
        raise Refused("the convolution has several groups")
    if read(editor, conv, read_window).dilations != (1, 1):
        raise Refused("the convolution is dilated")
    editor.require_only_reader(concat.outputs[0], conv)
    inside = {concat, *(node for part in parts for node in part.slices)}
    for node in inside - {concat}:
        value = node.outputs[0]
        other = next((user for user in editor.users(value) if user not in inside), None)
        if other is not None or value.is_graph_output():
            raise Refused(f"'{value.name}' is also read elsewhere")
    return _Match(concat, conv, parts)


def _rewrite(editor: Editor, match: _Match) -> None:
    import onnx_ir as ir

    conv, parts = match.conv, match.parts
    linear, window = read_linear(editor, conv), read(editor, conv, read_window)
    (rows, columns), source = parts[0].steps, parts[0].source
    channels = editor.shape(source)[1]
    outputs, _, height, width = linear.weight.shape
    weight = np.zeros((outputs, channels, rows * height, columns * width), np.float64)
    for index, part in enumerate(parts):
        own = linear.weight[:, index * channels : (index + 1) * channels]
        weight[:, :, part.offset[0] :: rows, part.offset[1] :: columns] += own
    base = editor.layer(conv)
    bias = editor.constant(f"{base}.bias", linear.bias.astype(np.float32))
    editor.set_inputs(conv, [source, editor.constant(f"{base}.weight", weight.astype(np.float32)), bias])
    top, left, bottom, right = window.pads
    set_pads(conv, (rows * top, columns * left, rows * bottom, columns * right))
    kernel, strides = weight.shape[2:], (rows * window.strides[0], columns * window.strides[1])
    for name, pair in (("kernel_shape", kernel), ("strides", strides)):
        conv.attributes[name] = ir.AttrInt64s(name, list(pair))
    gone = tuple(dict.fromkeys([match.concat, *(node for part in parts for node in part.slices)]))
    for node in gone:
        editor.move_tags(node, conv.outputs[0])
    editor.remove(*gone)


RULE = Rule("focus_to_conv", True, "blocks", __doc__ or "", _pattern, _check, _rewrite)
