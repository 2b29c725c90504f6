"""Operators that move numbers, and reductions, as Caffe layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nnkit.caffe.export.context import NodeContext
from nnkit.graph.read.axis import read_axis
from nnkit.graph.read.concat import read_concat
from nnkit.graph.read.reduce import read_reduce
from nnkit.graph.read.slice import read_slice, read_split
from nnkit.graph.read.transpose import read_transpose

_REDUCTIONS = {
    "ReduceSum": "SUM",
    "ReduceL1": "ASUM",
    "ReduceSumSquare": "SUMSQ",
    "ReduceMean": "MEAN",
    "ReduceL2": "SUMSQ",
}


def concat(context: NodeContext) -> None:
    """Concat."""
    axis = context.read(read_concat).axis
    context.result("Concat", context.node.inputs, **({"concat_param": {"axis": axis}} if axis != 1 else {}))


def identity(context: NodeContext) -> None:
    """A Split with one top: Caffe's way to give a value another name."""
    context.result("Split", [context.input(0)])


def dropout(context: NodeContext) -> None:
    """Dropout."""
    if len(context.node.results) > 1:
        context.fail("it gives out its mask", "remove the mask")
    context.layer("", "Dropout", [context.input(0)], [context.node.output])


def split(context: NodeContext) -> None:
    """Slice."""
    parts = context.read(read_split)
    fields = {"axis": parts.axis, "slice_point": parts.starts[1:]}
    context.layer("", "Slice", [context.input(0)], context.node.outputs, slice_param=fields)


def slice_node(context: NodeContext) -> None:
    """Slice with up to three tops; those beside the part that is wanted end in a Silence layer."""
    part, shape = context.read(read_slice, "use constant bounds"), context.shape()
    if set(part.steps) - {1}:
        context.fail("it takes every second value or other steps", "Caffe's Slice cuts, with step 1 only")
    cuts = [
        (axis, low, high)
        for axis, (low, high) in enumerate(zip(part.starts, part.ends, strict=True))
        if (low, high) != (0, shape[axis])
    ]
    value = context.input(0)
    if not cuts:
        context.result("Split", [value])
    for index, (axis, low, high) in enumerate(cuts):
        last = index == len(cuts) - 1
        size = shape[axis]
        label = "" if last else f"axis{axis}"
        top = context.node.output if last else context.writer.value_name(f"{context.name}_axis{axis}")
        before = [context.writer.value_name(f"{context.name}_before{axis}")] if low else []
        after = [context.writer.value_name(f"{context.name}_after{axis}")] if high < size else []
        points = ([low] if low else []) + ([high] if high < size else [])
        fields = {"axis": axis, "slice_point": points}
        context.layer(label, "Slice", [value], [*before, top, *after], slice_param=fields)
        value = top


def transpose(context: NodeContext) -> None:
    """Permute."""
    context.result("Permute", [context.input(0)], permute_param={"order": context.read(read_transpose).order})


def reshape(context: NodeContext) -> None:
    """Reshape (Flatten, Squeeze and Unsqueeze too); Flatten where it is one. A batch that stays is written as 0."""
    _reshape(context, context.input(0), context.shape(), context.result_shape)


def _reshape(context: NodeContext, value: str, shape: tuple[int, ...], result: tuple[int, ...]) -> None:
    if len(result) == 2 and len(shape) > 2 and result[0] == shape[0]:
        context.result("Flatten", [value])
        return
    context.result("Reshape", [value], reshape_param={"shape": {"dim": _dims(shape, result)}})


def _dims(shape: tuple[int, ...], result: tuple[int, ...]) -> list[int]:
    dims = list(result)
    if dims and shape and dims[0] == shape[0]:
        dims[0] = 0
    return dims


def tile(context: NodeContext) -> None:
    """Tile, a layer for each axis."""
    repeats = context.constant(1)
    if repeats is None:
        context.fail("its repeats are computed by the network", "use constant repeats")
    axes = [(axis, int(count)) for axis, count in enumerate(repeats) if count != 1]
    value = context.input(0)
    if not axes:
        context.result("Split", [value])
    for axis, count in axes[:-1]:
        value = context.part("Tile", [value], f"axis{axis}", tile_param={"axis": axis, "tiles": count})
    if axes:
        axis, count = axes[-1]
        context.result("Tile", [value], tile_param={"axis": axis, "tiles": count})


def reduce(context: NodeContext) -> None:
    """Reduction over the last axes (axes of size 1 behind them count as reduced); a Reshape gives kept axes back.

    The mean over height and width of a map is a global Pooling.
    """
    shape, op = context.shape(), context.node.op_type
    reduction = context.read(read_reduce, "use constant axes")
    reduced = reduction.axes
    if not reduced:
        context.result("Split", [context.input(0)])
        return
    if op == "ReduceMean" and reduced == (2, 3) and len(shape) == 4 and reduction.keeps_dims:
        context.result("Pooling", [context.input(0)], pooling_param={"pool": "AVE", "global_pooling": True})
        return
    first = reduced[0]
    if any(axis not in reduced and shape[axis] != 1 for axis in range(first, len(shape))):
        context.fail(
            f"it reduces axes {list(reduced)} of {list(shape)}",
            "Caffe reduces an axis and all behind it: bring the reduced axes to the end",
        )
    fields: dict[str, Any] = {"operation": _REDUCTIONS[op], "axis": first}
    value, result = context.input(0), context.result_shape
    same_shape = result == shape[:first]
    if op == "ReduceL2":
        value = context.part("Reduction", [value], "squares", reduction_param=fields)
        if same_shape:
            context.result("Power", [value], power_param={"power": 0.5})
            return
        value = context.part("Power", [value], "root", power_param={"power": 0.5})
    elif same_shape:
        context.result("Reduction", [value], reduction_param=fields)
        return
    else:
        value = context.part("Reduction", [value], "reduced", reduction_param=fields)
    context.result("Reshape", [value], reshape_param={"shape": {"dim": _dims(shape[:first], result)}})


def lp_normalization(context: NodeContext) -> None:
    """Normalize over the channels, whose eps keeps a norm of 0 apart; a vector is made a map for it."""
    shape = context.shape()
    if context.node.integer("p", 2) != 2 or context.read(read_axis) != 1:
        context.fail("it is no L2 norm over the channels", "use p 2 and axis 1")
    fields = {"across_spatial": False, "channel_shared": True}
    one = [np.ones(1, np.float32)]
    if len(shape) == 4:
        context.result("Normalize", [context.input(0)], one, norm_param=fields)
    elif len(shape) == 2:
        dims = {"shape": {"dim": [0, shape[1], 1, 1]}}
        value = context.part("Reshape", [context.input(0)], "map", reshape_param=dims)
        value = context.part("Normalize", [value], "norm", one, norm_param=fields)
        context.result("Flatten", [value])
    else:
        context.fail(f"its input has shape {list(shape)}", "a map or a vector is needed")
