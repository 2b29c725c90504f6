"""Layers that work on every number by itself, and Softmax."""

from __future__ import annotations

import math

import numpy as np

from nnkit.caffe.layers.context import LayerContext

_LARGEST = 3.4028234663852886e38


def relu(context: LayerContext) -> None:
    """max(x, 0) + negative_slope * min(x, 0)."""
    context.counts(1)
    slope = context.parameter("relu_param").negative_slope
    if slope:
        context.result("LeakyRelu", context.bottoms, context.shape(), alpha=float(slope))
    else:
        context.result("Relu", context.bottoms, context.shape())


def randomised_relu(context: LayerContext) -> None:
    """In use, the slope is the mean of its bounds."""
    context.counts(1)
    parameter = context.parameter("rrelu_param")
    slope = (parameter.lower + parameter.upper) / 2
    context.result("LeakyRelu", context.bottoms, context.shape(), alpha=float(slope))


def parametric_relu(context: LayerContext) -> None:
    """One slope a channel, or one for all."""
    context.counts(1)
    shape, shared = context.shape(), context.parameter("prelu_param").channel_shared
    if len(shape) < 2:
        context.fail(f"its bottom has shape {list(shape)}, without channels")
    count = 1 if shared else shape[1]
    slopes = context.array(0, (count,), "slope").reshape((count,) + (1,) * (len(shape) - 2))
    context.array_count(1)
    context.result("PRelu", [context.bottoms[0], context.weight("slope", slopes)], shape)


def concatenated_relu(context: LayerContext) -> None:
    """[relu(x), relu(-x)] along the axis."""
    context.counts(1)
    parameter = context.parameter("crelu_param")
    shape = list(context.shape())
    axis = context.axis(parameter.axis, len(shape))
    negated = context.part("Neg", context.bottoms, tuple(shape), "neg")
    shape[axis] *= 2
    both = context.part("Concat", [context.bottoms[0], negated], tuple(shape), "concat", axis=axis)
    if parameter.negative_slope:
        context.result("LeakyRelu", [both], tuple(shape), alpha=float(parameter.negative_slope))
    else:
        context.result("Relu", [both], tuple(shape))


def relu6(context: LayerContext) -> None:
    """min(max(x, 0), 6)."""
    context.counts(1)
    if context.parameter("relu6_param").negative_slope:
        context.fail("it has a negative_slope", "only the plain ReLU6 can be taken")
    _clip(context, 0.0, 6.0)


def clip(context: LayerContext) -> None:
    """min(max(x, min), max)."""
    context.counts(1)
    parameter = context.parameter("clip_param")
    if not (parameter.HasField("min") and parameter.HasField("max")) or parameter.min > parameter.max:
        context.fail("its clip_param is incomplete", "write min and max")
    _clip(context, parameter.min, parameter.max)


def _clip(context: LayerContext, low: float, high: float) -> None:
    bounds = [context.scalar("min", low), context.scalar("max", high)]
    context.result("Clip", [context.bottoms[0], *bounds], context.shape())


def elu(context: LayerContext) -> None:
    """x for x > 0, else alpha * (exp(x) - 1)."""
    context.counts(1)
    context.result("Elu", context.bottoms, context.shape(), alpha=float(context.parameter("elu_param").alpha))


def simple(op: str) -> _Simple:
    """A converter of a layer that is one ONNX operator without parameters."""
    return _Simple(op)


class _Simple:
    def __init__(self, op: str) -> None:
        self.op = op

    def __call__(self, context: LayerContext) -> None:
        context.counts(1)
        context.result(self.op, context.bottoms, context.shape())


def threshold(context: LayerContext) -> None:
    """1 where x > threshold, else 0."""
    context.counts(1)
    limit = context.scalar("threshold", context.parameter("threshold_param").threshold)
    above = context.part("Greater", [context.bottoms[0], limit], context.shape(), "greater")
    context.result("Cast", [above], context.shape(), to=1)


def softmax(context: LayerContext) -> None:
    """Softmax over one axis."""
    context.counts(1)
    shape = context.shape()
    context.result(
        "Softmax", context.bottoms, shape, axis=context.axis(context.parameter("softmax_param").axis, len(shape))
    )


def power(context: LayerContext) -> None:
    """(shift + scale * x) ^ power."""
    context.counts(1)
    parameter = context.parameter("power_param")
    if parameter.power == 0 or parameter.scale == 0:
        context.fail("its result is a constant", "remove the layer")
    steps = []
    if parameter.scale != 1:
        steps.append(("Mul", "scale", parameter.scale))
    if parameter.shift != 0:
        steps.append(("Add", "shift", parameter.shift))
    if parameter.power != 1:
        steps.append(("Pow", "power", parameter.power))
    _chain(context, steps)


def exponential(context: LayerContext) -> None:
    """base ^ (shift + scale * x), computed as Caffe does: base^shift * exp(ln(base) * scale * x)."""
    context.counts(1)
    parameter = context.parameter("exp_param")
    base = _base(context, parameter.base)
    try:
        outer = base**parameter.shift
    except OverflowError:
        outer = math.inf
    if not 0 < outer <= _LARGEST:
        context.fail("its base ^ shift is beyond float32", "correct exp_param")
    inner = math.log(base) * parameter.scale
    steps = [("Mul", "scale", inner)] if inner != 1 else []
    steps.append(("Exp", "", 0.0))
    if outer != 1:
        steps.append(("Mul", "factor", outer))
    _chain(context, steps)


def logarithm(context: LayerContext) -> None:
    """log_base(shift + scale * x)."""
    context.counts(1)
    parameter = context.parameter("log_param")
    factor = 1 / math.log(_base(context, parameter.base))
    steps = [("Mul", "scale", parameter.scale)] if parameter.scale != 1 else []
    if parameter.shift != 0:
        steps.append(("Add", "shift", parameter.shift))
    steps.append(("Log", "", 0.0))
    if factor != 1:
        steps.append(("Mul", "factor", factor))
    _chain(context, steps)


def _base(context: LayerContext, base: float) -> float:
    if base == -1:
        return math.e
    if base <= 0 or base == 1:
        context.fail(f"its base is {base:g}", "a base above 0 and not 1 is needed, or -1 for e")
    return float(base)


def _chain(context: LayerContext, steps: list[tuple[str, str, float]]) -> None:
    """Scalar operations one after another; a step without a label has no constant."""
    value, shape = context.bottoms[0], context.shape()
    if not steps:
        context.result("Identity", [value], shape)
        return
    for op, label, number in steps[:-1]:
        inputs = [value, context.scalar(label, np.float32(number))] if label else [value]
        value = context.part(op, inputs, shape, label or op.lower())
    op, label, number = steps[-1]
    context.result(op, [value, context.scalar(label, np.float32(number))] if label else [value], shape)
