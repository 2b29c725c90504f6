"""Elementwise ops: arithmetic with a tensor or a constant, normalisation by constants, activations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from nnkit.graph.read.activation import activation_parameters, read_slopes
from nnkit.graph.read.batch_norm import read_batch_norm
from nnkit.graph.read.clip import read_clip
from nnkit.graph.read.operands import optional_number, per_channel
from nnkit.graph.view import GraphView, Node
from nnkit_tpu.constraints import (
    clip_is_bounded,
    constant_fits_its_operand,
    divisor_is_not_zero,
    one_operand_is_computed,
    operands_have_one_rank,
    power_is_known,
    require,
    two_operands,
)
from nnkit_tpu.lowering.reading import as_one_number, fields, float32
from nnkit_tpu.program import (
    ActivationFunction,
    BinaryFunction,
    FloatArray,
    TpuActivation,
    TpuBinary,
    TpuOp,
    TpuScale,
)

_FUNCTIONS: Mapping[str, BinaryFunction] = MappingProxyType(
    {"Add": "add", "Sum": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Min": "min", "Max": "max"}
)
PLAIN: Mapping[str, ActivationFunction] = MappingProxyType(
    {
        "Sigmoid": "sigmoid",
        "Tanh": "tanh",
        "HardSwish": "hard_swish",
        "Exp": "exp",
        "Abs": "abs",
        "Sqrt": "sqrt",
        "Softplus": "softplus",
        "Mish": "mish",
        "Log": "log",
        "Erf": "erf",
    }
)


def binary(graph: GraphView, node: Node) -> TpuOp:
    """Add, Sub, Mul, Div, Min, Max of two; a constant per channel becomes a scale."""
    function = _FUNCTIONS[node.op_type]
    require(two_operands, len(node.inputs))
    left, right = (graph.constant(name) for name in node.inputs)
    require(one_operand_is_computed, (left is not None) + (right is not None))
    value = right if left is None else left
    if value is None:
        require(operands_have_one_rank, *(graph.shape(name) for name in node.inputs))
        return TpuBinary(**fields(graph, node, *node.inputs), function=function)
    constant, first = float32(value), left is not None
    data = node.inputs[1 if first else 0]
    shape, common = graph.shape(data), fields(graph, node, data)
    require(constant_fits_its_operand, constant.shape, shape)
    channels = per_channel(constant, shape)
    if channels is not None and constant.size > 1:
        linear = _as_scale(function, float32(channels), first)
        if linear is not None:
            return TpuScale(**common, scale=linear[0], bias=linear[1])
    if constant.size > 1:
        constant = as_one_number(constant.reshape((1,) * (len(shape) - constant.ndim) + constant.shape))
    if function == "div" and not first:
        require(divisor_is_not_zero, constant)
        function, constant = "mul", float32(1.0 / constant.astype(np.float64))
    constant_first = first and function in ("sub", "div")
    return TpuBinary(**common, function=function, constant=constant, constant_first=constant_first)


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


def batch_norm(graph: GraphView, node: Node) -> TpuOp:
    """BatchNormalization that no convolution took in."""
    layer = read_batch_norm(graph, node)
    return TpuScale(**fields(graph, node, layer.data), scale=float32(layer.scale), bias=float32(layer.shift))


def plain_activation(graph: GraphView, node: Node) -> TpuOp:
    """Activations without parameters."""
    return TpuActivation(**fields(graph, node, node.inputs[0]), function=PLAIN[node.op_type])


def clip(graph: GraphView, node: Node) -> TpuOp:
    """Relu, and Clip with constant bounds: one from 0 is a relu with a limit, one bound a maximum or minimum."""
    layer = read_clip(graph, node)
    require(clip_is_bounded, layer)
    if layer.low != 0.0 and not (np.isfinite(layer.low) and np.isfinite(layer.high)):
        above = np.isfinite(layer.low)
        bound = float32(np.array(layer.low if above else layer.high))
        return TpuBinary(**fields(graph, node, layer.data), function="max" if above else "min", constant=bound)
    function: ActivationFunction = "relu" if layer.low == 0.0 else "clip"
    return TpuActivation(**fields(graph, node, layer.data), function=function, bounds=(layer.low, layer.high))


def rectifier(graph: GraphView, node: Node) -> TpuOp:
    """LeakyRelu, and PRelu with one slope, or one per channel."""
    slopes = float32(read_slopes(graph, node))
    function: ActivationFunction = "leaky_relu" if slopes.size == 1 else "prelu"
    return TpuActivation(**fields(graph, node, node.inputs[0]), function=function, slopes=slopes)


def gelu(graph: GraphView, node: Node) -> TpuOp:
    """Gelu, by the error function or by tanh."""
    function: ActivationFunction = "gelu_by_tanh" if node.text("approximate", "none") == "tanh" else "gelu"
    return TpuActivation(**fields(graph, node, node.inputs[0]), function=function)


def elu(graph: GraphView, node: Node) -> TpuOp:
    """Elu."""
    (alpha,) = activation_parameters(node)
    return TpuActivation(**fields(graph, node, node.inputs[0]), function="elu", alpha=alpha)


def power(graph: GraphView, node: Node) -> TpuOp:
    """Pow: a square is a product with itself."""
    exponent = optional_number(graph, node, 1, "exponent is")
    require(power_is_known, exponent)
    data = node.inputs[0]
    if exponent == 2.0:
        return TpuBinary(**fields(graph, node, data, data), function="mul")
    return TpuActivation(**fields(graph, node, data), function="sqrt")


def with_a_number(graph: GraphView, node: Node) -> TpuOp:
    """Neg as a product with -1, Reciprocal as a quotient."""
    common, divides = fields(graph, node, node.inputs[0]), node.op_type == "Reciprocal"
    number = float32(np.array(1.0 if divides else -1.0))
    return TpuBinary(**common, function="div" if divides else "mul", constant=number, constant_first=divides)


def hard_sigmoid(graph: GraphView, node: Node) -> TpuOp:
    """HardSigmoid."""
    alpha, beta = activation_parameters(node)
    return TpuActivation(**fields(graph, node, node.inputs[0]), function="hard_sigmoid", alpha=alpha, beta=beta)
