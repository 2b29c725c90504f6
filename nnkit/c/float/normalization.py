"""Rows brought to mean 0 and variance 1: LayerNormalization, InstanceNormalization."""

from __future__ import annotations

from math import prod

import numpy as np

from nnkit.c.float.calls import Argument, Call, Code, Table, Write
from nnkit.c.float.operands import read
from nnkit.graph.refusal import Refused
from nnkit.graph.view import GraphView, Node


def layer_normalization(graph: GraphView, node: Node) -> Code:
    """Over the last axes; scale and bias have a number for each value of them."""
    shape = graph.shape(node.inputs[0])
    axis = node.integer("axis", -1) % len(shape)
    if len(node.results) > 1:
        raise Refused("its mean or deviation is read too")
    return _call(graph, node, shape[axis:], rows=prod(shape[:axis]), cycle=1, each=1)


def instance_normalization(graph: GraphView, node: Node) -> Code:
    """Over each map; scale and bias have a number for each channel."""
    shape = graph.shape(node.inputs[0])
    return _call(graph, node, shape[1:2], rows=prod(shape[:2]), cycle=shape[1], each=prod(shape[2:]))


def _call(graph: GraphView, node: Node, shape: tuple[int, ...], *, rows: int, cycle: int, each: int) -> Code:
    """shape: of scale and bias. rows: how many are normalised; cycle: how many of them until the first scale is taken
    again; each: values of a row in a line that share a scale."""
    source = read(graph, node.inputs[0])
    scale, bias = (_constants(graph, node.input(index), shape, absent) for index, absent in ((1, 1.0), (2, 0.0)))
    size = prod(graph.shape(node.inputs[0])) // rows
    arguments = (source, scale, bias, Write(node.output), rows, size, cycle, each, node.number("epsilon", 1e-5))
    return [Call("normalization", "nnkit_normalization", arguments, in_place=(0,))]


def _constants(graph: GraphView, name: str, shape: tuple[int, ...], absent: float) -> Argument:
    if not name:
        return Table(np.full(prod(shape), absent, np.float32))
    array = graph.constant(name)
    if array is not None:
        return Table(np.ascontiguousarray(np.broadcast_to(array, shape), np.float32).reshape(-1))
    if prod(graph.shape(name)) != prod(shape):
        raise Refused("its scale or bias is computed, and not one number for each value")
    return read(graph, name)


LOWERINGS = {"LayerNormalization": layer_normalization, "InstanceNormalization": instance_normalization}
