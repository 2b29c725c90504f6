"""Functions of two values with ONNX's broadcasting, and of several, joined one by one."""

from __future__ import annotations

from math import prod

import numpy as np

from nnkit.c.float.calls import Call, Code, Read, Table, Write, copy, grid
from nnkit.c.float.operands import broadcast_strides, read, strides
from nnkit.graph.view import GraphView, Node

_BINARY = {
    "Add": "NNKIT_ADD",
    "Sub": "NNKIT_SUB",
    "Mul": "NNKIT_MUL",
    "Div": "NNKIT_DIV",
    "Pow": "NNKIT_POW",
    "PRelu": "NNKIT_PRELU",
}
_VARIADIC = {"Max": "NNKIT_MAX", "Min": "NNKIT_MIN", "Sum": "NNKIT_ADD", "Mean": "NNKIT_ADD"}


def binary(graph: GraphView, node: Node) -> Code:
    a, b = (read(graph, name) for name in node.inputs[:2])
    return [binary_call(graph, node, _BINARY[node.op_type], a, b)]


def variadic(graph: GraphView, node: Node) -> Code:
    shape, target = graph.shape(node.output), Write(node.output)
    parts = [read(graph, name) for name in node.inputs]
    first = broadcast_strides(graph.shape(parts[0].value), shape)
    calls = [copy(parts[0], target, shape, first, strides(shape))]
    # The first result has the output's shape: the others are joined to it in place.
    result = Read(node.output)
    calls += [binary_call(graph, node, _VARIADIC[node.op_type], result, part) for part in parts[1:]]
    if node.op_type == "Mean":
        steps, count = grid(shape, strides(shape), [0] * len(shape)), Table(np.array([len(parts)], np.float32))
        calls.append(Call("binary", "nnkit_binary", ("NNKIT_DIV", result, count, target, steps), ("grid",)))
    return calls


def binary_call(graph: GraphView, node: Node, function: str, a: Read, b: Read) -> Call:
    """output = a function b, broadcast to the output's shape."""
    shape = graph.shape(node.output)
    shapes = [graph.shape(operand.value) for operand in (a, b)]
    steps = [broadcast_strides(each, shape) for each in shapes]
    whole = tuple(position for position, each in enumerate(shapes, start=1) if prod(each) == prod(shape))
    arguments = (function, a, b, Write(node.output), grid(shape, *steps))
    return Call("binary", "nnkit_binary", arguments, ("grid",), in_place=whole)


LOWERINGS = dict.fromkeys(_BINARY, binary) | dict.fromkeys(_VARIADIC, variadic)
