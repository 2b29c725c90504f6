"""Operators that work value by value, with ONNX's broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnkit.cpu_segments.calls import Argument, Call, Lowered, Read, Table, Write, grid, number, strides
from nnkit.cpu_segments.graph import Layer

_PLAIN = ("Relu", "Sigmoid", "Tanh", "Softplus", "Exp", "Log", "Sqrt", "Abs", "Neg", "Reciprocal", "Floor", "Ceil")
_SLOPED = {"LeakyRelu": (("alpha", 0.01),), "Elu": (("alpha", 1.0),), "HardSigmoid": (("alpha", 0.2), ("beta", 0.5))}
_C_NAMES = {"LeakyRelu": "LEAKY_RELU", "HardSigmoid": "HARD_SIGMOID", "PRelu": "PRELU"}

UNARY_OPS = (*_PLAIN, *_SLOPED)
BINARY_OPS = ("Add", "Sub", "Mul", "Div", "Pow", "PRelu")
VARIADIC_OPS = {"Max": "MAX", "Min": "MIN", "Sum": "ADD", "Mean": "ADD"}
_FLOAT_MAX = float(np.finfo(np.float32).max)


def unary(layer: Layer) -> Lowered:
    kind = layer.node.op_type
    parameters = [float(layer.attribute(name, default)) for name, default in _SLOPED.get(kind, ())]
    return [_unary(layer, _C_NAMES.get(kind, kind.upper()), *parameters)]


def clip(layer: Layer) -> Lowered:
    low = float(layer.constant(1, "its min")) if layer.has(1) else -_FLOAT_MAX
    high = float(layer.constant(2, "its max")) if layer.has(2) else _FLOAT_MAX
    return [_unary(layer, "CLIP", low, high)]


def binary(layer: Layer) -> Lowered:
    kind = layer.node.op_type
    return [binary_call(layer, _C_NAMES.get(kind, kind.upper()), layer.input(0), layer.input(1))]


def variadic(layer: Layer) -> Lowered:
    names = [layer.input(index) for index in range(len(layer.node.input))]
    op = VARIADIC_OPS[layer.node.op_type]
    shape = layer.out_shape
    first = grid(shape, _broadcast(layer.shape(0), shape), strides(shape))
    calls = [Call("copy", "nnkit_copy", (Read(names[0]), Write(layer.output), first))]
    # The first result has the output's shape: the others are joined to it in place.
    calls += [binary_call(layer, op, layer.output, name) for name in names[1:]]
    if layer.node.op_type == "Mean":
        steps, count = grid(shape, strides(shape), [0] * len(shape)), Table(np.array([len(names)], np.float32))
        calls.append(
            Call("binary", "nnkit_binary", ("NNKIT_DIV", Read(layer.output), count, Write(layer.output), steps))
        )
    return calls


def binary_call(layer: Layer, op: str, a: str, b: str) -> Call:
    """output = a op b."""
    shape = layer.out_shape
    steps = grid(shape, _broadcast(layer.shape_of(a), shape), _broadcast(layer.shape_of(b), shape))
    return Call("binary", "nnkit_binary", (f"NNKIT_{op}", Read(a), Read(b), Write(layer.output), steps))


def _unary(layer: Layer, op: str, p: float = 0.0, q: float = 0.0) -> Call:
    count = str(int(np.prod(layer.out_shape)))
    source, target = Read(layer.input(0)), Write(layer.output)
    arguments: tuple[Argument, ...] = (f"NNKIT_{op}", source, target, count, number(p), number(q))
    return Call("unary", "nnkit_unary", arguments)


def _broadcast(shape: Sequence[int], target: Sequence[int]) -> list[int]:
    """Steps of an array of `shape` along `target`: 0 where it is repeated."""
    padded = [1] * (len(target) - len(shape)) + list(shape)
    return [0 if size == 1 else step for size, step in zip(padded, strides(padded), strict=True)]
