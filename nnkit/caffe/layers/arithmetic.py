"""Eltwise, Reduction and ArgMax."""

from __future__ import annotations

import math

from nnkit.caffe.layers.context import LayerContext
from nnkit.caffe.network import MAX_VALUES

_PRODUCT, _SUM, _MAXIMUM = 0, 1, 2
_REDUCTIONS = {1: "ReduceSum", 2: "ReduceL1", 3: "ReduceSumSquare", 4: "ReduceMean"}


def eltwise(context: LayerContext) -> None:
    """Sum with factors, product or maximum of maps of one shape, from left to right as Caffe computes them."""
    context.counts((2, MAX_VALUES))
    parameter = context.parameter("eltwise_param")
    shape, count = context.shape(), len(context.bottoms)
    for index in range(1, count):
        if context.shape(index) != shape:
            context.fail(f"its bottoms have different shapes: {list(shape)} and {list(context.shape(index))}")
    if parameter.coeff and (parameter.operation != _SUM or len(parameter.coeff) != count):
        context.fail(f"it has {len(parameter.coeff)} coeff for {count} bottoms", "write one for each, with SUM only")
    values, subtract = list(context.bottoms), set()
    for index, factor in enumerate(parameter.coeff):
        if factor == -1 and index:
            subtract.add(index)
        elif factor != 1:
            scaled = [values[index], context.scalar(f"coeff{index + 1}", factor)]
            values[index] = context.part("Mul", scaled, shape, f"coeff{index + 1}")
    op = {_PRODUCT: "Mul", _SUM: "Add", _MAXIMUM: "Max"}[parameter.operation]
    value = values[0]
    for index in range(1, count):
        used = "Sub" if index in subtract else op
        if index == count - 1:
            context.result(used, [value, values[index]], shape)
        else:
            value = context.part(used, [value, values[index]], shape, f"{used.lower()}{index}")


def reduction(context: LayerContext) -> None:
    """Sum, sum of magnitudes, sum of squares or mean over an axis and all behind it, times a factor."""
    context.counts(1)
    parameter = context.parameter("reduction_param")
    shape = context.shape()
    axis = context.axis(parameter.axis, len(shape))
    axes = list(range(axis, len(shape)))
    op, result = _REDUCTIONS[parameter.operation], shape[:axis]
    if op == "ReduceSum":
        inputs, attributes = [context.bottoms[0], context.integers("axes", axes)], {"keepdims": 0}
        if parameter.coeff == 1:
            context.result(op, inputs, result, **attributes)
            return
        value = context.part(op, inputs, result, "reduce", **attributes)
    else:
        if parameter.coeff == 1:
            context.result(op, context.bottoms, result, axes=axes, keepdims=0)
            return
        value = context.part(op, context.bottoms, result, "reduce", axes=axes, keepdims=0)
    context.result("Mul", [value, context.scalar("coeff", parameter.coeff)], result)


def argmax(context: LayerContext) -> None:
    """Index of the largest number along an axis; without one, of all, as [N, 1, 1] and further ones."""
    context.counts(1)
    parameter = context.parameter("argmax_param")
    if parameter.top_k != 1 or parameter.out_max_val:
        context.fail("it gives more than one index", "only top_k 1 without out_max_val can be taken")
    shape, value = context.shape(), context.bottoms[0]
    if parameter.HasField("axis"):
        axis = context.axis(parameter.axis, len(shape))
        result = (*shape[:axis], 1, *shape[axis + 1 :])
        index = context.part("ArgMax", [value], result, "argmax", axis=axis, keepdims=1)
        context.result("Cast", [index], result, to=1)
        return
    flat = (shape[0], math.prod(shape[1:]))
    value = context.part("Reshape", [value, context.integers("flat", flat)], flat, "flatten")
    index = context.part("ArgMax", [value], (shape[0], 1), "argmax", axis=1, keepdims=1)
    number = context.part("Cast", [index], (shape[0], 1), "cast", to=1)
    result = (shape[0], *(1,) * (max(len(shape), 3) - 1))
    context.result("Reshape", [number, context.integers("shape", result)], result)
