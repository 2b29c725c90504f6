"""Elementwise ops: arithmetic with a tensor or a constant, normalisation by constants, activations."""

from __future__ import annotations

import numpy as np

from nnkit_tpu.lowering.reading import Node, Unsupported, float32
from nnkit_tpu.program import (
    ActivationFunction,
    BinaryFunction,
    FloatArray,
    TpuActivation,
    TpuBinary,
    TpuOp,
    TpuScale,
)

_FUNCTIONS: dict[str, BinaryFunction] = {
    "Add": "add",
    "Sum": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Min": "min",
    "Max": "max",
}
_PLAIN: dict[str, ActivationFunction] = {
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "HardSwish": "hard_swish",
    "Exp": "exp",
    "Abs": "abs",
    "Sqrt": "sqrt",
}


def binary(node: Node) -> TpuOp:
    """Add, Sub, Mul, Div, Min, Max of two; a constant per channel becomes a scale."""
    function = _FUNCTIONS[node.node.op_type]
    if len(node.node.inputs) != 2:
        raise Unsupported(f"it has {len(node.node.inputs)} inputs, 2 are supported")
    left, right = node.constant(0), node.constant(1)
    if left is not None and right is not None:
        raise Unsupported("both its inputs are constants")
    if left is None and right is None:
        if len(node.shape(0)) != len(node.shape(1)):
            raise Unsupported(f"its inputs have {len(node.shape(0))} and {len(node.shape(1))} dimensions")
        return TpuBinary(**node.fields, inputs=(node.computed(0), node.computed(1)), function=function)
    first = left is not None
    value = left if left is not None else right
    constant = float32(np.asarray(value))
    data = 1 if first else 0
    if np.broadcast_shapes(constant.shape, node.shape(data)) != node.shape(data):
        raise Unsupported("its constant is larger than its input")
    channels = per_channel(constant, node.shape(data))
    if channels is not None and constant.size > 1:
        found = _as_scale(function, channels, first)
        if found is not None:
            return TpuScale(**node.fields, inputs=(node.computed(data),), scale=found[0], bias=found[1])
    if constant.size > 1:
        constant = constant.reshape((1,) * (len(node.shape(data)) - constant.ndim) + constant.shape)
    if function == "div" and not first:
        if np.any(constant == 0):
            raise Unsupported("it divides by zero")
        function, constant = "mul", float32(1.0 / constant.astype(np.float64))
    return TpuBinary(
        **node.fields,
        inputs=(node.computed(data),),
        function=function,
        constant=constant,
        constant_first=first and function in ("sub", "div"),
    )


def per_channel(constant: FloatArray, shape: tuple[int, ...]) -> FloatArray | None:
    """[C] values of a constant that is the same within each channel of [N, C, ...]; None for any other."""
    if len(shape) < 2:
        return None
    full = np.broadcast_to(constant, shape)
    channels = full.reshape(shape[0], shape[1], -1)[0, :, 0]
    same = np.broadcast_to(channels.reshape(-1, *(1,) * (len(shape) - 2)), shape)
    return float32(channels) if np.array_equal(full, same) else None


def _as_scale(function: BinaryFunction, c: FloatArray, first: bool) -> tuple[FloatArray, FloatArray] | None:
    """(scale, bias) of x op c, or of c op x if `first`; None where it is not linear in x."""
    one, zero = np.ones_like(c), np.zeros_like(c)
    if function == "add":
        return one, c
    if function == "mul":
        return c, zero
    if function == "sub":
        return (-one, c) if first else (one, -c)
    if function == "div" and not first and not np.any(c == 0):
        return float32(1.0 / c.astype(np.float64)), zero
    return None


def batch_norm(node: Node) -> TpuOp:
    """BatchNormalization that no convolution took in."""
    gamma, beta, mean, variance = (
        node.required_constant(i, name).astype(np.float64)
        for i, name in ((1, "scale"), (2, "bias"), (3, "mean"), (4, "variance"))
    )
    scale = gamma / np.sqrt(variance + node.number("epsilon", 1e-5))
    return TpuScale(**node.fields, inputs=(node.computed(),), scale=float32(scale), bias=float32(beta - mean * scale))


def plain_activation(node: Node) -> TpuOp:
    """Activations without parameters."""
    return TpuActivation(**node.fields, inputs=(node.computed(),), function=_PLAIN[node.node.op_type])


def relu(node: Node) -> TpuOp:
    """Relu."""
    return TpuActivation(**node.fields, inputs=(node.computed(),), function="relu", bounds=(0.0, np.inf))


def clip(node: Node) -> TpuOp:
    """Clip with constant bounds; one from 0 is a relu with a limit."""
    bounds = [-np.inf, np.inf]
    for index, attribute in ((1, "min"), (2, "max")):
        if node.given(index):
            bounds[index - 1] = float(node.required_constant(index, attribute).reshape(-1)[0])
        elif attribute in node.node.attributes:
            bounds[index - 1] = node.number(attribute, 0.0)
    limit = float(np.finfo(np.float32).max)
    low, high = (float(np.inf * np.sign(b)) if abs(b) >= limit else b for b in bounds)
    function: ActivationFunction = "relu" if low == 0.0 else "clip"
    if function == "clip" and not (np.isfinite(low) and np.isfinite(high)):
        raise Unsupported("one of its bounds is open and the lower one is not 0")
    return TpuActivation(**node.fields, inputs=(node.computed(),), function=function, bounds=(low, high))


def leaky_relu(node: Node) -> TpuOp:
    """LeakyRelu."""
    slopes = np.array([node.number("alpha", 0.01)], np.float32)
    return TpuActivation(**node.fields, inputs=(node.computed(),), function="leaky_relu", slopes=slopes)


def prelu(node: Node) -> TpuOp:
    """PRelu with one slope, or one per channel."""
    slopes = float32(node.required_constant(1, "slope"))
    if slopes.size == 1:
        return TpuActivation(
            **node.fields, inputs=(node.computed(),), function="leaky_relu", slopes=slopes.reshape(1)
        )
    channels = per_channel(slopes, node.shape())
    if channels is None:
        raise Unsupported("its slopes differ within a channel")
    return TpuActivation(**node.fields, inputs=(node.computed(),), function="prelu", slopes=channels)


def hard_sigmoid(node: Node) -> TpuOp:
    """HardSigmoid."""
    alpha, beta = node.number("alpha", 0.2), node.number("beta", 0.5)
    return TpuActivation(**node.fields, inputs=(node.computed(),), function="hard_sigmoid", alpha=alpha, beta=beta)
