"""Convolutions of patches, as vision transformers begin with: windows side by side, 16 pixels apart or more; on the
BM chips, of images of three channels or fewer, 14 pixels apart.

The compiler makes of such a convolution a product of the patches, as the chips' windows are closer together, with one
scale for all weights; of a depthwise one it reads the first channels alone. Here it gets the product, with zeros
between groups. Patches are gathered in whole rows of theirs: as channels of an image, by which weights would have
scales of their own, values are moved one by one, which takes 30 times as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nnkit_tpu.chained import Made, Step, chained
from nnkit_tpu.chips import CV_CHIPS
from nnkit_tpu.program import (
    FloatArray,
    TpuConv,
    TpuGraph,
    TpuMatMul,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuReshape,
    TpuSlice,
    TpuTensor,
)

_LEAST_STRIDE = 16
_IMAGE_STRIDE, _IMAGE_CHANNELS = 14, 3  # on the BM chips, both ways: measured with 1 to 8 channels, 8 to 15 pixels
_PATCHES_FIRST = (0, 2, 4, 1, 3, 5)  # of [N, C, rows, patch height, columns, patch width]


def patches_as_rows(graph: TpuGraph, chip: str) -> TpuGraph:
    """The graph with such convolutions, unless their weights are integers already, as products of their patches."""
    convolutions = {op.output: op for op in graph.ops if isinstance(op, TpuConv) and _is_of_patches(op, chip)}
    if not convolutions:
        return graph
    ops, tensors, gone = list[TpuOp](), dict(graph.tensors), set[str]()
    for each in graph.ops:
        if each.output in gone:
            continue
        op = convolutions.get(each.output)
        if op is None:
            ops.append(each)
            continue
        turned = _turned_back(graph, op)
        gone |= {made.output for made in turned}
        shapes = graph.tensors[op.inputs[0]].shape, graph.tensors[op.output].shape
        for made, shape in _product(op, *shapes, turned[-1] if turned else None):
            ops.append(made)
            tensors[made.output] = TpuTensor(made.output, shape)
    left = {each.output for each in ops}.union(graph.inputs)
    return replace(graph, ops=tuple(ops), tensors={name: tensors[name] for name in tensors if name in left})


def _turned_back(graph: TpuGraph, op: TpuConv) -> list[TpuOp]:
    """The reshape and the transposition that make rows of the result again, where nothing else reads it."""
    (rows,), shape = graph.consumers(op.output)[:1] or (None,), graph.tensors[op.output].shape
    if not isinstance(rows, TpuReshape) or graph.tensors[rows.output].shape != (*shape[:2], math.prod(shape[2:])):
        return []
    (turn,) = graph.consumers(rows.output)[:1] or (None,)
    if not isinstance(turn, TpuPermute) or turn.order != (0, 2, 1):
        return []
    alone = all(len(graph.consumers(each.output)) == 1 and each.output not in graph.outputs for each in (op, rows))
    return [rows, turn] if alone else []


def _is_of_patches(op: TpuConv, chip: str) -> bool:
    w = op.window
    beside = (w.kernel_h, w.kernel_w) == (w.stride_h, w.stride_w) and (w.dilation_h, w.dilation_w) == (1, 1)
    if not beside or op.weight_scale:
        return False
    of_an_image = chip not in CV_CHIPS and op.group == 1 and op.weight.shape[1] <= _IMAGE_CHANNELS
    return max(w.stride_h, w.stride_w) >= _LEAST_STRIDE or (
        of_an_image and min(w.stride_h, w.stride_w) >= _IMAGE_STRIDE
    )


def _product(op: TpuConv, before: Sequence[int], after: Sequence[int], turned: TpuOp | None) -> list[Made]:
    """What the convolution becomes, with the shapes of the results; the last one has the name of its result.

    turned: what rows are made of the result by again, whose result is the product's then.
    """
    images, channels = before[:2]
    (outputs, rows, columns), (height, width) = after[1:], op.weight.shape[2:]
    whole = (images, channels, rows * height, columns * width)
    w = op.window
    pads = (0, 0, w.pad_top, w.pad_left, 0, 0, w.pad_bottom, w.pad_right)
    padded = tuple(size + first + last for size, first, last in zip(before, pads[:4], pads[4:], strict=True))
    in_patches = (images, channels, rows, height, columns, width)
    as_rows = (images, rows * columns, channels * height * width)
    product: dict[str, Any] = {
        "weight": _matrix(op, channels),
        "bias": op.bias,
        "relu": op.relu,
        "relu_limit": op.relu_limit,
    }
    steps: list[Step] = [
        ("padded", TpuPad, {"pads": pads}, padded),
        ("cut", TpuSlice, {"offsets": (0,) * 4, "steps": (1,) * 4, "ends": whole}, whole),
        ("patches", TpuReshape, {}, in_patches),
        ("gathered", TpuPermute, {"order": _PATCHES_FIRST}, tuple(in_patches[axis] for axis in _PATCHES_FIRST)),
        ("rows", TpuReshape, {}, as_rows),
        ("product", TpuMatMul, product, (images, rows * columns, outputs)),
        ("channels", TpuPermute, {"order": (0, 2, 1)}, (images, outputs, rows * columns)),
        ("", TpuReshape, {}, tuple(after)),
    ]
    idle = {"padded": not any(pads), "cut": padded == whole, "channels": turned is not None, "": turned is not None}
    made = chained(op, [step for step in steps if not idle.get(step[0], False)])
    if turned is not None:
        last, shape = made[-1]
        made[-1] = replace(last, name=op.name, output=turned.output), shape
    return made


def _matrix(op: TpuConv, channels: int) -> FloatArray:
    """[pixels of a patch, outputs]: the weights, and zeros where another group reads the channel."""
    outputs, in_group = op.weight.shape[:2]
    dense = np.zeros((outputs, channels, *op.weight.shape[2:]), np.float32)
    for group, weights in enumerate(np.split(op.weight, op.group)):
        first = group * len(weights)
        dense[first : first + len(weights), group * in_group : (group + 1) * in_group] = weights
    return np.ascontiguousarray(dense.reshape(outputs, -1).T)
