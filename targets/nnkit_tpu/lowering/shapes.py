"""Ops that move values: concatenation, slices, reshapes, transposition, padding, resizing; reductions and softmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import numpy as np

from nnkit.graph.read.axis import read_axis
from nnkit.graph.read.concat import read_concat
from nnkit.graph.read.embedding import read_embedding
from nnkit.graph.read.operands import image_hw
from nnkit.graph.read.pad import read_pad
from nnkit.graph.read.reduce import read_reduce
from nnkit.graph.read.reshape import read_reshape
from nnkit.graph.read.resize import read_resize
from nnkit.graph.read.slice import read_slice, read_split
from nnkit.graph.read.transpose import read_transpose
from nnkit.graph.view import GraphView, Node
from nnkit.program import Window
from nnkit_tpu.constraints import (
    batch_is_not_reduced,
    linear_coordinates_are_kept,
    linear_is_by_whole_factors,
    mode_is_nearest_or_linear,
    nearest_repeats_pixels,
    normalisation_is_plain,
    numbers_are_given,
    pad_does_not_crop,
    pad_mode_is_known,
    require,
    resize_is_plain,
    resize_keeps_channels,
    scales_are_ratios,
    slice_runs_forwards,
)
from nnkit_tpu.lowering.reading import Built, fields, float32, not_lowered
from nnkit_tpu.program import (
    FloatArray,
    TpuConcat,
    TpuDeconv,
    TpuEmbedding,
    TpuInterp,
    TpuLayerNorm,
    TpuOp,
    TpuPad,
    TpuPermute,
    TpuPool,
    TpuReduce,
    TpuReshape,
    TpuSlice,
    TpuSoftmax,
    TpuUpsample,
)

_PADDING: Mapping[str, Literal["constant", "reflect", "edge"]] = MappingProxyType(
    {"constant": "constant", "reflect": "reflect", "edge": "edge"}
)
_RESIZE = (
    *(resize_keeps_channels, resize_is_plain, scales_are_ratios, mode_is_nearest_or_linear),
    *(nearest_repeats_pixels, linear_is_by_whole_factors, linear_coordinates_are_kept),
)
_COORDINATES: Mapping[str, Literal["align_corners", "half_pixel", "pytorch_half_pixel"]] = MappingProxyType(
    {"align_corners": "align_corners", "half_pixel": "half_pixel", "pytorch_half_pixel": "pytorch_half_pixel"}
)


def concat(graph: GraphView, node: Node) -> TpuOp:
    """Concat."""
    layer = read_concat(graph, node)
    return TpuConcat(**fields(graph, node, *layer.inputs), axis=layer.axis)


def slice_(graph: GraphView, node: Node) -> TpuOp:
    """Slice with constant bounds and positive steps."""
    layer = read_slice(graph, node)
    require(slice_runs_forwards, layer)
    return TpuSlice(**fields(graph, node, layer.data), offsets=layer.starts, steps=layer.steps, ends=layer.ends)


def split(graph: GraphView, node: Node) -> Built:
    """Split: a slice for each output."""
    layer = read_split(graph, node)
    shape = graph.shape(layer.data)
    parts = []
    for output, start, size in zip(node.outputs, layer.starts, layer.sizes, strict=True):
        begin, end = [0] * len(shape), list(shape)
        begin[layer.axis], end[layer.axis] = start, start + size
        common = fields(graph, node, layer.data, output=output)
        parts.append(TpuSlice(**common, offsets=tuple(begin), steps=(1,) * len(shape), ends=tuple(end)))
    return Built(tuple(parts))


def reshape(graph: GraphView, node: Node) -> TpuOp:
    """Reshape, Flatten, Squeeze, Unsqueeze: the shape is that of the output."""
    return TpuReshape(**fields(graph, node, read_reshape(graph, node).data))


def transpose(graph: GraphView, node: Node) -> TpuOp:
    """Transpose."""
    layer = read_transpose(graph, node)
    return TpuPermute(**fields(graph, node, layer.data), order=layer.order)


def pad(graph: GraphView, node: Node) -> TpuOp:
    """Pad with constant, reflected or repeated values; cropping is a slice's task."""
    layer = read_pad(graph, node)
    require(pad_does_not_crop, layer)
    require(pad_mode_is_known, layer)
    pads = (*layer.before, *layer.after)
    return TpuPad(**fields(graph, node, layer.data), pads=pads, method=_PADDING[layer.mode], value=layer.value)


def resize(graph: GraphView, node: Node) -> TpuOp:
    """Resize of H and W by whole factors, nearest or linear; to the size it has, a reshape."""
    layer = read_resize(graph, node)
    image_hw(layer.before)
    for constraint in _RESIZE:
        require(constraint, layer)
    common = fields(graph, node, layer.data)
    if layer.before == layer.after:
        return TpuReshape(**common)  # a copy; the compiler takes it out, and the program with it
    if layer.mode == "linear":
        return TpuInterp(**common, method="linear", coordinates=_COORDINATES[layer.coordinates])
    height, width, channels = layer.after[2] // layer.before[2], layer.after[3] // layer.before[3], layer.before[1]
    if height == width:
        return TpuUpsample(**common, scale_h=height, scale_w=width)
    # The chip repeats equally often both ways only; ones in a window without overlap repeat too.
    ones = np.ones((channels, 1, height, width), np.float32)
    window = Window(kernel_h=height, kernel_w=width, stride_h=height, stride_w=width)
    return TpuDeconv(**common, weight=ones, bias=None, window=window, group=channels)


def reduce(graph: GraphView, node: Node) -> TpuOp:
    """ReduceMean, ReduceSum, ReduceMax, ReduceMin, ReduceL2; over H and W an average or maximum pool.

    Over axes of 1 all but the last, which is a magnitude, are a reshape.
    """
    layer = read_reduce(graph, node)
    function, shape = layer.function, graph.shape(layer.data)
    if function == "l1" or function == "sum_square":
        raise not_lowered(node)
    require(batch_is_not_reduced, layer.axes, shape)
    common = fields(graph, node, layer.data)
    if function != "l2" and all(shape[axis] == 1 for axis in layer.axes):
        return TpuReshape(**common)
    if function in ("mean", "max") and layer.axes == (2, 3) and len(shape) == 4 and layer.keeps_dims:
        window = Window(kernel_h=shape[2], kernel_w=shape[3])
        return TpuPool(**common, function="max" if function == "max" else "average", window=window)
    return TpuReduce(**common, function=function, axes=layer.axes, keep_dims=layer.keeps_dims)


def softmax(graph: GraphView, node: Node) -> TpuOp:
    """Softmax and LogSoftmax along one axis."""
    common = fields(graph, node, node.inputs[0])
    return TpuSoftmax(**common, axis=read_axis(graph, node), log=node.op_type == "LogSoftmax")


def embedding(graph: GraphView, node: Node) -> TpuOp:
    """Gather of the rows of a constant table by numbers that the network is given."""
    read = read_embedding(graph, node)
    require(numbers_are_given, read.ids in graph.inputs)
    return TpuEmbedding(**{**fields(graph, node), "inputs": (read.ids,)}, table=float32(read.table))


def layer_norm(graph: GraphView, node: Node) -> TpuOp:
    """LayerNormalization; a scale of 1 and a bias of 0 are left out."""
    shape = graph.shape(node.inputs[0])
    axis = read_axis(graph, node)
    named = [name for name in (node.input(1), node.input(2)) if name]
    require(normalisation_is_plain, len(node.results), sum(graph.constant(name) is None for name in named))
    scale, bias = (_over_axes(graph, node.input(index), shape[axis:], index == 1) for index in (1, 2))
    common = fields(graph, node, node.inputs[0])
    return TpuLayerNorm(**common, axis=axis, epsilon=node.number("epsilon", 1e-5), scale=scale, bias=bias)


def _over_axes(graph: GraphView, name: str, shape: Sequence[int], is_scale: bool) -> FloatArray | None:
    """The constant `name` in the shape of the normalised axes; None where it changes nothing."""
    value = graph.constant(name) if name else None
    if value is None or np.all(value == (1 if is_scale else 0)):
        return None
    return float32(np.broadcast_to(value, shape))
