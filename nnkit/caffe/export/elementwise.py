"""Activations and arithmetic as Caffe layers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnkit.caffe.export.context import NodeContext, scalar
from nnkit.graph.read.activation import activation_parameters, read_slopes
from nnkit.graph.read.axis import read_axis
from nnkit.graph.read.clip import read_clip
from nnkit.graph.read.lrn import read_lrn

_LARGEST = 3.4028234663852886e38


def single(kind: str, **parameters: Any) -> _Single:
    """A rule for an operator that is one layer with fixed parameters."""
    return _Single(kind, parameters)


class _Single:
    def __init__(self, kind: str, parameters: dict[str, Any]) -> None:
        self.kind = kind
        self.parameters = parameters

    def __call__(self, context: NodeContext) -> None:
        context.result(self.kind, [context.input(0)], **self.parameters)


def leaky_relu(context: NodeContext) -> None:
    """ReLU with a slope."""
    (slope,) = activation_parameters(context.node)
    context.result("ReLU", [context.input(0)], relu_param={"negative_slope": slope})


def parametric_relu(context: NodeContext) -> None:
    """PReLU, one slope a channel or one for all."""
    slopes = context.read(read_slopes, "use one slope, or one a channel")
    fields = {"prelu_param": {"channel_shared": True}} if slopes.size == 1 else {}
    context.result("PReLU", [context.input(0)], [slopes], **fields)


def elu(context: NodeContext) -> None:
    """ELU."""
    (alpha,) = activation_parameters(context.node)
    context.result("ELU", [context.input(0)], **({"elu_param": {"alpha": alpha}} if alpha != 1 else {}))


def clip(context: NodeContext) -> None:
    """ReLU6 for 0..6, ReLU for 0 and no upper bound, else Clip."""
    bounds = context.read(read_clip, "use constant bounds")
    low, high = max(bounds.low, -_LARGEST), min(bounds.high, _LARGEST)
    if (low, high) == (0.0, 6.0):
        context.result("ReLU6", [context.input(0)])
    elif low == 0 and high == _LARGEST:
        context.result("ReLU", [context.input(0)])
    else:
        context.result("Clip", [context.input(0)], clip_param={"min": low, "max": high})


def softmax(context: NodeContext) -> None:
    """Softmax over one axis."""
    axis = context.read(read_axis)
    context.result("Softmax", [context.input(0)], **({"softmax_param": {"axis": axis}} if axis != 1 else {}))


def power(context: NodeContext) -> None:
    """Power with a constant exponent."""
    exponent = context.number(1)
    if exponent is None:
        context.fail("its exponent is no constant number", "use a constant exponent")
    _power(context, power=exponent)


def _power(context: NodeContext, *, bottom: str | None = None, **fields: float) -> None:
    context.result("Power", [bottom or context.input(0)], power_param=dict(fields))


def per_axes(array: NDArray[np.float32], shape: tuple[int, ...]) -> tuple[int, NDArray[np.float32]] | None:
    """First axis and numbers, as Caffe's Scale has them: a constant that spans some neighbouring axes of a
    value of `shape` and is broadcast over all others. None where it does not."""
    if array.ndim > len(shape):
        return None
    full = (1,) * (len(shape) - array.ndim) + array.shape
    spanned = [axis for axis, dim in enumerate(full) if dim != 1]
    first, last = (spanned[0], spanned[-1] + 1) if spanned else (0, 0)
    return (first, array.reshape(full[first:last])) if full[first:last] == shape[first:last] else None


def add(context: NodeContext) -> None:
    """Eltwise SUM; with a constant, Power or Scale."""
    _binary(context, "add")


def subtract(context: NodeContext) -> None:
    """Eltwise SUM with -1; with a constant, Power or Scale."""
    _binary(context, "sub")


def multiply(context: NodeContext) -> None:
    """Eltwise PROD; with a constant, Power or Scale; with one factor a channel, Scale by a second bottom."""
    _binary(context, "mul")


def divide(context: NodeContext) -> None:
    """With a constant, Power or Scale; else the reciprocal by Power, and a product."""
    _binary(context, "div")


def _binary(context: NodeContext, op: str) -> None:
    constants = [context.constant(0), context.constant(1)]
    if constants[0] is not None and constants[1] is not None:
        context.fail("both its inputs are constant", "fold the constants")
    for index, array in enumerate(constants):
        if array is not None:
            _with_constant(context, op, context.input(1 - index), array.astype(np.float32), first=index == 0)
            return
    left, right = context.input(0), context.input(1)
    if context.shape(0) == context.shape(1):
        if op == "div":
            right = context.part("Power", [right], "reciprocal", power_param={"power": -1.0})
        fields: dict[str, Any] = {"operation": "PROD" if op in ("mul", "div") else "SUM"}
        if op == "sub":
            fields["coeff"] = [1.0, -1.0]
        context.result("Eltwise", [left, right], eltwise_param=fields)
        return
    if op == "mul":
        for big, small in ((0, 1), (1, 0)):
            shape, factor = context.shape(big), context.shape(small)
            if len(shape) == 4 and factor == (shape[0], shape[1], 1, 1):
                flat = context.part("Flatten", [context.input(small)], "factor")
                context.result("Scale", [context.input(big), flat], scale_param={"axis": 0})
                return
    context.fail(
        f"it broadcasts {list(context.shape(0))} and {list(context.shape(1))}",
        "Caffe needs equal shapes, or a product of a map and one factor a channel",
    )


def _with_constant(context: NodeContext, op: str, value: str, array: NDArray[np.float32], *, first: bool) -> None:
    """`first`: the constant stands before the operator, as in c - x."""
    shape, number = context.value_shape(value), scalar(array)
    if context.result_shape != shape:
        context.fail(
            f"its constant {list(array.shape)} enlarges the value {list(shape)}", "use a constant that fits it"
        )
    if op == "div":
        if first:
            if number is None or number == 0:
                context.fail("it divides a constant of several numbers", "only one number can be divided by a value")
            _power(context, bottom=value, power=-1.0, scale=1.0 / number)  # c / x = (x / c)^-1
            return
        if not array.all():
            context.fail("it divides by zero", "correct the constant")
        array, op = np.reciprocal(array), "mul"
        number = scalar(array)
    if op == "sub" and not first:
        array, number, op = -array, None if number is None else -number, "add"
    if number is not None:
        fields = {"mul": {"scale": number}, "add": {"shift": number}, "sub": {"scale": -1.0, "shift": number}}[op]
        _power(context, bottom=value, **fields)
        return
    spanned = per_axes(array, shape)
    if spanned is None:
        context.fail(f"its constant {list(array.shape)} leaves out axes of {list(shape)} in between", "spell it out")
    axis, numbers = spanned
    span: dict[str, Any] = {} if axis == 1 else {"axis": axis}
    if numbers.ndim != 1:
        span["num_axes"] = numbers.ndim
    if op == "mul":
        context.result("Scale", [value], [numbers], **({"scale_param": span} if span else {}))
        return
    # Not a Bias layer: Scale by 1 gives the same numbers, and more readers of Caffe files know it.
    factors = np.full_like(numbers, 1 if op == "add" else -1)
    context.result("Scale", [value], [factors, numbers], scale_param=span | {"bias_term": True})


def maximum(context: NodeContext) -> None:
    """Eltwise MAX; ReLU for a maximum with 0."""
    _several(context, "MAX")


def total(context: NodeContext) -> None:
    """Eltwise SUM of any number of values."""
    _several(context, "SUM")


def _several(context: NodeContext, operation: str) -> None:
    names = [name for name in context.node.inputs if name]
    numbers = [scalar(context.view.constant(name)) for name in names]
    if operation == "MAX" and len(names) == 2 and 0.0 in numbers:
        context.result("ReLU", [names[1 - numbers.index(0.0)]])
        return
    if any(context.value_shape(name) != context.result_shape for name in names):
        context.fail("it broadcasts its inputs", "Caffe needs equal shapes")
    if len(names) == 1:
        context.result("Split", names)
    else:
        context.result("Eltwise", names, eltwise_param={"operation": operation})


def local_response(context: NodeContext) -> None:
    """LRN across channels."""
    norm = context.read(read_lrn)
    if norm.size % 2 == 0:
        context.fail(f"its size is {norm.size}", "Caffe needs an odd number of channels")
    fields = {"local_size": norm.size, "alpha": norm.alpha, "beta": norm.beta, "k": norm.bias}
    context.result("LRN", [norm.data], lrn_param=fields)
