"""Layers that move numbers and compute nothing: Concat, Slice, Split, Flatten, Reshape, Permute, Crop, Tile, ..."""

from __future__ import annotations

import math
from itertools import pairwise

from nnkit.caffe.layers.context import LayerContext
from nnkit.caffe.network import MAX_VALUES


def concat(context: LayerContext) -> None:
    """Maps one behind the other along an axis."""
    context.counts((1, MAX_VALUES))
    parameter = context.parameter("concat_param")
    shape = list(context.shape())
    old = parameter.HasField("concat_dim")
    axis = context.axis(parameter.concat_dim if old else parameter.axis, len(shape))
    for index in range(1, len(context.bottoms)):
        other = context.shape(index)
        if len(other) != len(shape) or any(
            a != b for i, (a, b) in enumerate(zip(other, shape, strict=True)) if i != axis
        ):
            context.fail(f"its bottoms do not fit along axis {axis}: {list(context.shape())} and {list(other)}")
    shape[axis] = sum(context.shape(index)[axis] for index in range(len(context.bottoms)))
    context.result("Concat", context.bottoms, tuple(shape), axis=axis)


def slice_layer(context: LayerContext) -> None:
    """A map cut along an axis, at given points or into equal parts."""
    context.counts(1, (1, MAX_VALUES))
    parameter = context.parameter("slice_param")
    shape, tops = context.shape(), len(context.layer.tops)
    axis = context.axis(parameter.slice_dim if parameter.HasField("slice_dim") else parameter.axis, len(shape))
    points = list(parameter.slice_point)
    if points and len(points) != tops - 1:
        context.fail(f"it has {len(points)} slice_point for {tops} tops", "write one less than there are tops")
    if not points:
        if shape[axis] % tops:
            context.fail(f"{tops} tops do not divide {shape[axis]}", "write slice_point")
        points = [shape[axis] // tops * index for index in range(1, tops)]
    sizes = [b - a for a, b in pairwise([0, *points, shape[axis]])]
    if min(sizes) < 1:
        context.fail(f"its slice points {points} do not ascend within {shape[axis]}", "correct slice_point")
    if tops == 1:
        context.result("Identity", context.bottoms, shape)
        return
    results = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    context.results("Split", [context.bottoms[0], context.integers("sizes", sizes)], results, axis=axis)


def split(context: LayerContext) -> None:
    """The same map under several names."""
    context.counts(1, (1, MAX_VALUES))
    for index in range(len(context.layer.tops)):
        context.one_of_results(index, "Identity", context.bottoms, context.shape())


def dropout(context: LayerContext) -> None:
    """Identity: a network that is not being trained drops nothing."""
    context.counts(1)
    if not context.parameter("dropout_param").scale_train:
        context.fail("it scales in use (scale_train: false)", "put a Power layer with that scale in its place")
    context.result("Dropout", context.bottoms, context.shape())


def flatten(context: LayerContext) -> None:
    """Several axes into one."""
    context.counts(1)
    parameter = context.parameter("flatten_param")
    shape = context.shape()
    first, last = context.axis(parameter.axis, len(shape)), context.axis(parameter.end_axis, len(shape))
    if last < first:
        context.fail(
            f"its end_axis {parameter.end_axis} is before its axis {parameter.axis}", "correct flatten_param"
        )
    result = (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
    if first == 1 and last == len(shape) - 1:
        context.result("Flatten", context.bottoms, result, axis=1)
    else:
        context.result("Reshape", [context.bottoms[0], context.integers("shape", result)], result)


def reshape(context: LayerContext) -> None:
    """Another shape of the same numbers: 0 keeps an axis, -1 takes what is left, between axis and axis + num_axes."""
    context.counts(1)
    parameter = context.parameter("reshape_param")
    shape, dims = context.shape(), list(parameter.shape.dim)
    rank = len(shape)
    first = parameter.axis if parameter.axis >= 0 else rank + parameter.axis + 1
    last = rank if parameter.num_axes == -1 else first + parameter.num_axes
    if not 0 <= first <= last <= rank or parameter.num_axes < -1:
        context.fail(f"axis {parameter.axis} and num_axes {parameter.num_axes} go beyond {rank} dimensions")
    if len(dims) > 8 or dims.count(-1) > 1 or min(dims, default=0) < -1:
        context.fail(f"its shape is {dims[:9]}", "write dimensions above 0, 0 to keep one, and at most one -1")
    if not first and dims and shape[0] == 1 and dims[0] == context.declared_batch:
        dims[0] = 1  # the batch that the file was written for
    middle = []
    for index, dim in enumerate(dims):
        if not dim and first + index >= rank:
            context.fail(f"dim {index + 1} of its shape is 0, but the bottom has {rank} dimensions")
        middle.append(dim or shape[first + index])
    outside = (*shape[:first], *shape[last:])
    known = math.prod(outside) * math.prod(dim for dim in middle if dim != -1)
    if -1 in middle:
        if math.prod(shape) % known:
            context.fail(f"{list(shape)} cannot become {[*shape[:first], *middle, *shape[last:]]}")
        middle[middle.index(-1)] = math.prod(shape) // known
    result = (*shape[:first], *middle, *shape[last:])
    if math.prod(result) != math.prod(shape):
        context.fail(f"{list(shape)} cannot become {list(result)}: the numbers of values differ")
    context.result("Reshape", [context.bottoms[0], context.integers("shape", result)], result)


def permute(context: LayerContext) -> None:
    """Axes in another order; those that the layer does not name follow as they are."""
    context.counts(1)
    shape, order = context.shape(), list(context.parameter("permute_param").order)
    if len(set(order)) < len(order) or any(axis >= len(shape) for axis in order):
        context.fail(f"its order {order[:9]} does not fit a shape of {len(shape)} dimensions", "name each axis once")
    order += [axis for axis in range(len(shape)) if axis not in order]
    context.result("Transpose", context.bottoms, tuple(shape[axis] for axis in order), perm=order)


def crop(context: LayerContext) -> None:
    """The part of the first map that the second one's size asks for; of the second only the shape counts."""
    context.counts(2)
    parameter = context.parameter("crop_param")
    shape, wanted = context.shape(0), context.shape(1)
    axis = context.axis(parameter.axis, len(shape))
    axes = list(range(axis, len(shape)))
    offsets = list(parameter.offset) or [0]
    offsets = offsets * len(axes) if len(offsets) == 1 else offsets
    if len(offsets) != len(axes) or len(wanted) != len(shape):
        context.fail(f"it has {len(offsets)} offsets for {len(axes)} axes, or bottoms of different rank")
    ends = [offset + wanted[i] for offset, i in zip(offsets, axes, strict=True)]
    if any(end > shape[i] for end, i in zip(ends, axes, strict=True)):
        context.fail(f"{list(wanted)} from offsets {offsets} on is not within {list(shape)}", "correct the offsets")
    constants = [context.integers("starts", offsets), context.integers("ends", ends), context.integers("axes", axes)]
    context.result("Slice", [context.bottoms[0], *constants], (*shape[:axis], *(wanted[i] for i in axes)))


def tile(context: LayerContext) -> None:
    """A map several times along an axis."""
    context.counts(1)
    parameter = context.parameter("tile_param")
    shape = list(context.shape())
    axis = context.axis(parameter.axis, len(shape))
    if not 1 <= parameter.tiles <= MAX_VALUES:
        context.fail(f"its tiles is {parameter.tiles}", "write how many copies")
    repeats = [parameter.tiles if i == axis else 1 for i in range(len(shape))]
    shape[axis] *= parameter.tiles
    context.result("Tile", [context.bottoms[0], context.integers("repeats", repeats)], tuple(shape))
